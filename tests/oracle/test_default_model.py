"""The default model's greedy tokens against `transformers` on the same dequantised weights.

Netgain generates; then one forward pass of `transformers` over prompt and output says which token
it would have chosen at each place given the same tokens before it. Until the first difference that
is the same as comparing two generations, and after an excused tie it still checks every token.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import gguf
import numpy as np
import pytest
import tokenizers
import torch
import transformers
from numpy.typing import NDArray
from tests.backends import LoadedModel, backends, load
from tests.greedy import TIE
from tests.oracle.prompts import PROMPTS
from tests.paged import PagedDriver, PagedSequence, Work

from netgain.models.gguf_file import GGUFHeader, TensorInfo, read_header

pytestmark = pytest.mark.model

NEW_TOKENS: Final = 64
TOGETHER: Final = 16
CHUNK: Final = 200


@pytest.fixture(scope="module")
def header(default_gguf: Path) -> GGUFHeader:
    return read_header(default_gguf)


@pytest.fixture(scope="module", params=backends())
def model(default_gguf: Path, request: pytest.FixtureRequest) -> LoadedModel:
    return load(default_gguf, request.param)


@pytest.fixture(scope="module")
def prompts(header: GGUFHeader) -> list[list[int]]:
    """Token ids by byte-level BPE; near enough to the model's own splitting for test text."""
    tokens, merges = (
        header.metadata["tokenizer.ggml.tokens"],
        header.metadata["tokenizer.ggml.merges"],
    )
    assert isinstance(tokens, list)
    assert isinstance(merges, list)
    pairs = [(left, right) for left, _, right in (str(merge).partition(" ") for merge in merges)]
    vocab = {str(token): index for index, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, pairs))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return [tokenizer.encode(text).ids for text in PROMPTS]


@pytest.fixture(scope="module")
def oracle(header: GGUFHeader) -> transformers.LlamaForCausalLM:
    return build_oracle(header)


def build_oracle(header: GGUFHeader) -> transformers.LlamaForCausalLM:
    """The model as `transformers` defines it, with weights dequantised here.

    Equal to `from_pretrained(gguf_file=...)`, whose metadata loop takes a quarter of a minute.
    """
    meta = header.metadata
    heads, kv_heads = meta["llama.attention.head_count"], meta["llama.attention.head_count_kv"]
    assert isinstance(heads, int)
    assert isinstance(kv_heads, int)
    config = transformers.LlamaConfig.from_dict(
        {
            "vocab_size": meta["llama.vocab_size"],
            "hidden_size": meta["llama.embedding_length"],
            "intermediate_size": meta["llama.feed_forward_length"],
            "num_hidden_layers": meta["llama.block_count"],
            "num_attention_heads": heads,
            "num_key_value_heads": kv_heads,
            "max_position_embeddings": meta["llama.context_length"],
            "rms_norm_eps": meta["llama.attention.layer_norm_rms_epsilon"],
            "rope_theta": meta["llama.rope.freq_base"],
            "tie_word_embeddings": True,
        }
    )
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    state = {}
    for name in model.state_dict():
        stem, _, kind = (
            "model.embed_tokens.weight" if name == "lm_head.weight" else name
        ).rpartition(".")
        weights = dequantised(header, header.tensors[f"{names.get_name(stem)}.{kind}"])
        if "q_proj" in name or "k_proj" in name:
            weights = half_rotation_order(weights, heads if "q_proj" in name else kv_heads)
        state[name] = torch.from_numpy(weights.copy())
    model.load_state_dict(state, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model


def dequantised(header: GGUFHeader, tensor: TensorInfo) -> NDArray[np.float32]:
    kind = gguf.GGMLQuantizationType(tensor.type_id)
    shape = gguf.quant_shape_to_byte_shape(tensor.shape, kind) if kind else (tensor.elements * 4,)
    data = np.fromfile(header.path, np.uint8, int(np.prod(shape)), offset=tensor.offset)
    weights: NDArray[np.float32] = gguf.dequantize(data.reshape(shape), kind)
    return weights.reshape(tensor.shape)


def half_rotation_order(weights: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    rows = np.arange(weights.shape[0]).reshape(heads, -1)
    return weights[np.concatenate((rows[:, 0::2], rows[:, 1::2]), axis=1).ravel()]


def generate(model: LoadedModel, prompts: Sequence[list[int]]) -> list[list[int]]:
    """Greedy tokens of sequences that share steps: chunks of some with decodes of others."""
    driver = PagedDriver(model, block_tokens=16, blocks=1200)
    sequences = [PagedSequence() for _ in prompts]
    histories = [list(prompt) for prompt in prompts]
    while True:
        live = [
            i for i, prompt in enumerate(prompts) if len(histories[i]) < len(prompt) + NEW_TOKENS
        ]
        if not live:
            return [h[len(p) :] for h, p in zip(histories, prompts, strict=True)]
        work = [
            Work(s, h[s.length : s.length + CHUNK], all_rows=False)
            for s, h in ((sequences[i], histories[i]) for i in live)
        ]
        for i, logits in zip(live, driver.step(work), strict=True):
            if sequences[i].length == len(histories[i]):
                histories[i].append(int(logits.argmax()))


def test_64_greedy_tokens_of_32_prompts_equal_transformers_but_for_listed_ties(
    model: LoadedModel,
    oracle: transformers.LlamaForCausalLM,
    prompts: list[list[int]],
    ties: list[str],
) -> None:
    assert len(prompts) == 32
    differences: list[str] = []
    for first in range(0, len(prompts), TOGETHER):
        batch = prompts[first : first + TOGETHER]
        for prompt, output in zip(batch, generate(model, batch), strict=True):
            with torch.inference_mode():
                rows = oracle(
                    torch.tensor([prompt + output[:-1]]), logits_to_keep=NEW_TOKENS
                ).logits[0]
            for place, (token, row) in enumerate(zip(output, rows, strict=True)):
                gap = (row.max() - row[token]).item()
                if row.argmax() != token:
                    note = f"oracle, prompt {prompts.index(prompt)}: token {place}, gap {gap:.1e}"
                    (ties if gap <= TIE else differences).append(note)
    assert not differences


def test_logits_of_the_default_model_equal_transformers(
    model: LoadedModel, oracle: transformers.LlamaForCausalLM, prompts: list[list[int]]
) -> None:
    longest = max(prompts, key=len)
    driver = PagedDriver(model, block_tokens=16, blocks=100)
    (logits,) = driver.step([Work(PagedSequence(), longest)])
    with torch.inference_mode():
        expected = oracle(torch.tensor([longest])).logits[0]
    assert (logits - expected).abs().max().item() < 1e-3
