"""Sentence embeddings against `transformers`."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from tests.tiny_encoder import MAX_TOKENS, WORDS, write_tiny_encoder

from netgain.errors import ModelError
from netgain.models.sentence_encoder import SentenceEncoder


@pytest.mark.parametrize("seed", [0, 1])
def test_embeddings_are_those_of_transformers(tmp_path: Path, seed: int) -> None:
    oracle = write_tiny_encoder(tmp_path, seed)
    encoder = SentenceEncoder.load(str(tmp_path))
    draw = random.Random(seed)
    for length in (1, 2, 7, MAX_TOKENS):
        ids = [draw.randrange(4 + len(WORDS)) for _ in range(length)]
        with torch.no_grad():
            mean = oracle(torch.tensor([ids])).last_hidden_state[0].mean(dim=0)
        expected = (mean / mean.norm()).numpy()
        assert np.abs(encoder.embed(ids) - expected).max() < 1e-5


def test_a_folder_names_its_encoder(tmp_path: Path) -> None:
    write_tiny_encoder(tmp_path / "tiny-bert")
    encoder = SentenceEncoder.load(str(tmp_path / "tiny-bert"))
    assert encoder.name == "tiny-bert"
    assert encoder.tokenizer.encode("Hello cats", add_special_tokens=True) == [2, 4, 6, 7, 3]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "llama"}, "not a BERT encoder"),
        ({"hidden_act": "relu"}, "activation 'relu'"),
        ({"hidden_size": "many"}, "malformed"),
        ({"num_attention_heads": 5}, "contradict"),
        ({"num_hidden_layers": 3}, "encoder.layer.2"),
        ({"vocab_size": 99}, "word_embeddings"),
    ],
)
def test_a_checkpoint_of_another_kind_is_refused(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    write_tiny_encoder(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(ModelError, match=words):
        SentenceEncoder.load(str(tmp_path))


def test_a_cut_or_missing_file_is_refused(tmp_path: Path) -> None:
    write_tiny_encoder(tmp_path)
    weights = tmp_path / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        SentenceEncoder.load(str(tmp_path))
    stored = safetensors.numpy.load(whole)
    del stored["encoder.layer.1.output.dense.bias"]
    safetensors.numpy.save_file(stored, weights)
    with pytest.raises(ModelError, match=r"output\.dense\.bias is missing"):
        SentenceEncoder.load(str(tmp_path))
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match=r"config\.json"):
        SentenceEncoder.load(str(tmp_path))


def test_what_is_not_there_says_what_to_do() -> None:
    with pytest.raises(ModelError, match="no such folder"):
        SentenceEncoder.load("/nowhere/at/all")
