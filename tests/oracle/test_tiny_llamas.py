"""Logits of random tiny Llamas against `transformers`, through files on disk and paged KV."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import torch
import transformers
from tests.backends import backends, load
from tests.paged import PagedDriver, PagedSequence, Work

from netgain.ops.choices import BackendName

BLOCK: Final = 8
VOCAB: Final = 199
TOLERANCE: Final = 1e-4
NOTHING: Final[dict[str, object]] = {}
CONFIGS: Final[dict[str, dict[str, object]]] = {
    "grouped": {"num_attention_heads": 4, "num_key_value_heads": 2},
    "multi-head": {"num_attention_heads": 4, "num_key_value_heads": 4},
    "multi-query": {"num_attention_heads": 4, "num_key_value_heads": 1},
    "wide-heads": {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32},
    "tied": {"tie_word_embeddings": True, "num_key_value_heads": 2},
    "biased": {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 2},
    "llama3-rope": {
        "rope_scaling": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
    "linear-rope": {"rope_scaling": {"rope_type": "linear", "rope_theta": 5e4, "factor": 4.0}},
}


@dataclass(frozen=True)
class Pair:
    """One checkpoint, loaded by both."""

    ours: PagedDriver
    theirs: transformers.LlamaForCausalLM

    def expected(self, tokens: Sequence[int]) -> torch.Tensor:
        with torch.inference_mode():
            logits: torch.Tensor = self.theirs(torch.tensor([list(tokens)])).logits[0]
        return logits


def save_tiny(
    folder: Path, seed: int, changes: Mapping[str, object] = NOTHING, shard: str = "50GB"
) -> Path:
    """A random Llama with gains and biases that matter, as `save_pretrained` writes it."""
    torch.manual_seed(seed)
    sizes: dict[str, object] = {
        "vocab_size": VOCAB,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
        "initializer_range": 0.15,
    }
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig.from_dict({**sizes, **changes}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder, max_shard_size=shard)
    (folder / "tokenizer.json").write_text("{}")
    return folder


def load_pair(folder: Path, backend: BackendName, block_tokens: int = BLOCK) -> Pair:
    theirs = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return Pair(PagedDriver(load(folder, backend), block_tokens, blocks=200), theirs)


@pytest.fixture(scope="module", params=backends())
def backend(request: pytest.FixtureRequest) -> BackendName:
    name: BackendName = request.param
    return name


@pytest.fixture(scope="module", params=CONFIGS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, backend: BackendName
) -> Pair:
    folder = tmp_path_factory.mktemp("tiny")
    return load_pair(save_tiny(folder, 1, CONFIGS[request.param]), backend)


def prompt(length: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(VOCAB), k=length)


def assert_close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.shape == expected.shape
    assert (actual - expected).abs().max().item() <= TOLERANCE


@pytest.mark.parametrize("length", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 150])
def test_a_prompt_in_one_slice_has_the_logits_of_transformers(pair: Pair, length: int) -> None:
    tokens = prompt(length)
    sequence = PagedSequence()
    (logits,) = pair.ours.step([Work(sequence, tokens)])
    pair.ours.release(sequence)
    assert_close(logits, pair.expected(tokens))


def test_a_prompt_in_odd_chunks_has_the_logits_of_transformers(pair: Pair) -> None:
    tokens = prompt(101, seed=2)
    sequence, found, at = PagedSequence(), [], 0
    for count in (5, 1, 3, 7, 8, 9, 1, 1, 16, 31, 2, 17):
        found += pair.ours.step([Work(sequence, tokens[at : at + count])])
        at += count
    pair.ours.release(sequence)
    assert at == len(tokens)
    assert_close(torch.cat(found), pair.expected(tokens))


@pytest.mark.parametrize("start", [2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1])
def test_decode_steps_have_the_logits_of_transformers(pair: Pair, start: int) -> None:
    tokens = prompt(start + 12, seed=3)
    sequence = PagedSequence()
    found = pair.ours.step([Work(sequence, tokens[:start])])
    for token in tokens[start:]:
        found += pair.ours.step([Work(sequence, [token])])
    pair.ours.release(sequence)
    assert_close(torch.cat(found), pair.expected(tokens))


def test_slices_of_every_kind_share_a_step_with_strangers(pair: Pair) -> None:
    """Decodes of near and far contexts, first chunks and later ones, in changing company."""
    rng = random.Random(4)
    prompts = [prompt(length, seed=10 + length) for length in (3, 9, 40, 41, 64, 127, 140, 150)]
    sequences = [PagedSequence() for _ in prompts]
    found: list[list[torch.Tensor]] = [[] for _ in prompts]
    kinds = set()
    while pending := [i for i, s in enumerate(sequences) if s.length < len(prompts[i])]:
        chosen = rng.sample(pending, rng.randint(1, len(pending)))
        work = []
        for i in chosen:
            at, count = sequences[i].length, rng.choice([1, 1, 1, 2, 7, 30])
            tokens = prompts[i][at : at + count]
            kinds.add((len(tokens) == 1, at == 0))
            work.append(Work(sequences[i], tokens))
        for i, logits in zip(chosen, pair.ours.step(work), strict=True):
            found[i].append(logits)
    for sequence, tokens, parts in zip(sequences, prompts, found, strict=True):
        pair.ours.release(sequence)
        assert_close(torch.cat(parts), pair.expected(tokens))
    assert len(kinds) == 4


def test_only_the_rows_asked_for_get_logits(pair: Pair) -> None:
    tokens = [prompt(13, seed=5), prompt(4, seed=6)]
    sequences = [PagedSequence(), PagedSequence()]
    first, second = pair.ours.step(
        [Work(sequences[0], tokens[0], all_rows=False), Work(sequences[1], tokens[1])]
    )
    assert_close(first, pair.expected(tokens[0])[-1:])
    assert_close(second, pair.expected(tokens[1]))
    for sequence in sequences:
        pair.ours.release(sequence)


@pytest.mark.parametrize("block_tokens", [1, 16, 64, 256])
def test_the_block_size_does_not_show(
    tmp_path: Path, backend: BackendName, block_tokens: int
) -> None:
    folder = save_tiny(tmp_path, seed=7, changes={"num_key_value_heads": 2})
    pair = load_pair(folder, backend, block_tokens)
    tokens = prompt(90, seed=7)
    sequence = PagedSequence()
    found = pair.ours.step([Work(sequence, tokens[:70])])
    for token in tokens[70:]:
        found += pair.ours.step([Work(sequence, [token])])
    assert_close(torch.cat(found), pair.expected(tokens))


def test_a_sharded_checkpoint_loads_whole(tmp_path: Path, backend: BackendName) -> None:
    pair = load_pair(save_tiny(tmp_path, seed=8, shard="100KB"), backend)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    tokens = prompt(20, seed=8)
    assert_close(pair.ours.step([Work(PagedSequence(), tokens)])[0], pair.expected(tokens))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_widen_to_float32(
    tmp_path: Path, backend: BackendName, dtype: torch.dtype
) -> None:
    save_tiny(tmp_path / "wide", seed=9)
    half = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "wide", dtype=dtype)
    half.save_pretrained(tmp_path / "half")
    (tmp_path / "half" / "tokenizer.json").write_text("{}")
    pair = load_pair(tmp_path / "half", backend)
    tokens = prompt(20, seed=9)
    assert_close(pair.ours.step([Work(PagedSequence(), tokens)])[0], pair.expected(tokens))


def test_rope_settings_in_the_older_layout_mean_the_same(
    tmp_path: Path, backend: BackendName
) -> None:
    """Before version 5, `transformers` wrote `rope_theta` and `rope_scaling` side by side."""
    pair = load_pair(save_tiny(tmp_path, 11, CONFIGS["llama3-rope"]), backend)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling
    path.write_text(json.dumps(config))
    tokens = prompt(150, seed=11)
    driver = PagedDriver(load(tmp_path, backend), BLOCK, blocks=50)
    (logits,) = driver.step([Work(PagedSequence(), tokens)])
    assert_close(logits, pair.expected(tokens))
