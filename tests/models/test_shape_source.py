"""Shapes and real bytes from files, and from names."""

import json
from pathlib import Path

import pytest
from tests.tiny_checkpoints import random_weights, write_hugging_face

from netgain.cost.layout import ONE_DEVICE, Layout
from netgain.cost.model_shape import ModelShape
from netgain.cost.precision import WeightFormat
from netgain.cost.weights import rank_weight_bytes, weight_bytes
from netgain.errors import ModelError
from netgain.models.gguf_file import read_header
from netgain.models.shape_source import open_shape


@pytest.fixture(autouse=True)
def _empty_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETGAIN_CACHE", str(tmp_path / "cache"))


def test_a_folder_s_tensors_are_counted_to_the_byte(tmp_path: Path) -> None:
    weights = random_weights()
    model = open_shape(str(write_hugging_face(tmp_path / "tiny", weights)))
    assert model.shape.parameters == sum(array.size for array in weights.values())
    assert weight_bytes(model.shape, model.weights) == sum(a.nbytes for a in weights.values())
    assert rank_weight_bytes(model.shape, model.weights, ONE_DEVICE) == sum(
        array.nbytes for array in weights.values()
    )


def test_two_ranks_of_a_file_hold_half_of_its_matrices_each(tmp_path: Path) -> None:
    model = open_shape(str(write_hugging_face(tmp_path / "tiny", random_weights())))
    whole = weight_bytes(model.shape, model.weights)
    rank = rank_weight_bytes(model.shape, model.weights, Layout(tp=2))
    assert whole / 2 < rank < whole * 0.52


def test_a_config_alone_is_enough(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "tiny", random_weights())
    model = open_shape(str(folder / "config.json"))
    assert model.shape.layers == 2
    assert model.weights.name == "bf16"


@pytest.mark.model
def test_the_default_model_s_file_is_counted_to_the_byte(default_gguf: Path) -> None:
    model = open_shape(str(default_gguf))
    header = read_header(default_gguf)
    assert model.shape.parameters == 134_515_008
    assert weight_bytes(model.shape, model.weights) == header.file_bytes - header.data_offset


@pytest.mark.parametrize("name", ["default", "smollm2", "HuggingFaceTB/SmolLM2-135M-Instruct"])
def test_the_default_model_has_a_shape_before_it_is_fetched(name: str) -> None:
    assert open_shape(name).shape.parameters == 134_515_008


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("llama-9", "did you mean"),
        ("./nothing", "no such file"),
        ("nothing.gguf", "no such file"),
        ("xyzzy", "unknown model"),
    ],
)
def test_what_is_not_there_is_told(name: str, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        open_shape(name)


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"hidden_size": 3})])
def test_a_broken_config_is_told_without_a_traceback(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ModelError):
        open_shape(str(tmp_path))


def test_an_empty_folder_and_a_foreign_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no config\.json"):
        open_shape(str(tmp_path))
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ModelError, match=r"give a config\.json"):
        open_shape(str(tmp_path / "notes.txt"))


def _index(folder: Path, *shards: str) -> None:
    weight_map = {f"tensor{at}": shard for at, shard in enumerate(shards)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_a_shard_that_was_not_fetched_is_not_counted_as_nothing(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "tiny", random_weights())
    _index(folder, "model.safetensors", "model-2.safetensors")
    with pytest.raises(ModelError, match=r"shard model-2\.safetensors is missing.*config\.json"):
        open_shape(str(folder))


def test_files_beside_those_of_the_index_are_not_counted_twice(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "tiny", random_weights())
    once = weight_bytes(*_shape_and_weights(folder))
    _index(folder, "model.safetensors")
    (folder / "consolidated.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    assert weight_bytes(*_shape_and_weights(folder)) == once


def test_files_that_hold_almost_nothing_of_a_model_are_refused(tmp_path: Path) -> None:
    weights = random_weights()
    folder = write_hugging_face(tmp_path / "tiny", weights)
    first = min(weights, key=lambda name: weights[name].size)
    write_hugging_face(tmp_path / "part", {first: weights[first]})
    (folder / "model.safetensors").write_bytes(
        (tmp_path / "part" / "model.safetensors").read_bytes()
    )
    with pytest.raises(ModelError, match="some are missing"):
        open_shape(str(folder))


def test_a_config_nested_without_end_is_not_json(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text("[" * 200_000)
    with pytest.raises(ModelError, match="not JSON"):
        open_shape(str(config))


def _shape_and_weights(folder: Path) -> tuple[ModelShape, WeightFormat]:
    model = open_shape(str(folder))
    return model.shape, model.weights


def test_an_index_without_any_of_its_files_is_noted(tmp_path: Path) -> None:
    folder = write_hugging_face(tmp_path / "tiny", random_weights())
    for file in folder.glob("*.safetensors"):
        file.unlink()
    said = "none of the files it lists"
    assert said not in " ".join(open_shape(str(folder)).shape.notes)
    (folder / "model.safetensors.index.json").write_text("{", "utf-8")
    assert said in " ".join(open_shape(str(folder)).shape.notes)
