"""Checkpoints on disk become the same model, or an error that says what to do."""

import json
import shutil
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import gguf
import numpy as np
import pytest
import torch
from tests.backends import backend, load
from tests.paged import PagedDriver, PagedSequence, Work
from tests.tiny_checkpoints import Weights, random_weights, write_gguf, write_hugging_face

from netgain.errors import ModelError
from netgain.models.checkpoint import CheckpointKind, open_checkpoint
from netgain.models.gguf_file import read_header
from netgain.models.load_timings import WeightPart
from netgain.models.loading import load_model

Writer: TypeAlias = Callable[[Path, Weights], Path]

GATE: Final = "model.layers.1.mlp.gate_proj.weight"
QUANTISED: Final = (
    gguf.GGMLQuantizationType.Q4_0,
    gguf.GGMLQuantizationType.Q4_1,
    gguf.GGMLQuantizationType.Q5_1,
    gguf.GGMLQuantizationType.Q8_0,
    gguf.GGMLQuantizationType.F16,
    gguf.GGMLQuantizationType.BF16,
)


@pytest.fixture(scope="module")
def weights() -> Weights:
    return random_weights()


def logits(path: Path) -> torch.Tensor:
    driver = PagedDriver(load(path), block_tokens=8, blocks=20)
    return driver.step([Work(PagedSequence(), range(50))])[0]


def test_gguf_and_safetensors_of_the_same_weights_are_the_same_model(
    tmp_path: Path, weights: Weights
) -> None:
    from_gguf = logits(write_gguf(tmp_path / "tiny.gguf", weights))
    assert torch.equal(from_gguf, logits(write_hugging_face(tmp_path / "hf", weights)))


@pytest.mark.parametrize("kind", QUANTISED, ids=lambda kind: kind.name)
def test_quantised_weights_load_as_their_dequantised_values(
    tmp_path: Path, weights: Weights, kind: gguf.GGMLQuantizationType
) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", weights, kind)
    values = {
        name: weight
        if weight.ndim == 1
        else gguf.dequantize(gguf.quantize(weight, kind), kind).astype(np.float32)
        for name, weight in weights.items()
    }
    assert torch.equal(logits(path), logits(write_hugging_face(tmp_path / "hf", values)))


def test_loading_is_timed_by_part(tmp_path: Path, weights: Weights) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", weights)
    _, timings = load_model(open_checkpoint(path), backend())
    assert list(timings.seconds) == list(WeightPart)
    assert timings.seconds[WeightPart.READ] > 0
    assert timings.seconds[WeightPart.CONVERT] > 0


@pytest.mark.parametrize("write", [write_gguf, write_hugging_face], ids=["gguf", "safetensors"])
def test_a_missing_tensor_is_named(tmp_path: Path, weights: Weights, write: Writer) -> None:
    path = write(tmp_path / "m", {n: w for n, w in weights.items() if n != GATE})
    with pytest.raises(ModelError, match=f"missing tensors: {GATE}"):
        load(path)


@pytest.mark.parametrize("write", [write_gguf, write_hugging_face], ids=["gguf", "safetensors"])
def test_a_tensor_of_the_wrong_shape_is_named(
    tmp_path: Path, weights: Weights, write: Writer
) -> None:
    path = write(tmp_path / "m", weights | {GATE: np.zeros((95, 64), np.float32)})
    with pytest.raises(ModelError, match=rf"{GATE} has shape \(95, 64\).* \(96, 64\)"):
        load(path)


@pytest.mark.parametrize("write", [write_gguf, write_hugging_face], ids=["gguf", "safetensors"])
def test_an_unknown_tensor_is_named(tmp_path: Path, weights: Weights, write: Writer) -> None:
    path = write(tmp_path / "m", weights | {"strange.weight": np.zeros((2, 64), np.float32)})
    with pytest.raises(ModelError, match=r"unknown tensors: strange\.weight"):
        load(path)


def test_a_head_written_beside_tied_embeddings_is_ignored(tmp_path: Path, weights: Weights) -> None:
    head = weights["model.embed_tokens.weight"].copy()
    load(write_hugging_face(tmp_path / "m", weights | {"lm_head.weight": head}))


@pytest.mark.parametrize("kept", [10, 500, 0.5, 0.999])
def test_a_gguf_cut_short_says_to_fetch_it_again(
    tmp_path: Path, weights: Weights, kept: float
) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", weights)
    data = path.read_bytes()
    path.write_bytes(data[: int(kept if kept >= 1 else kept * len(data))])
    with pytest.raises(ModelError, match="fetch the file again"):
        load(path)


def test_a_gguf_that_shrinks_after_it_was_opened_says_to_fetch_it_again(
    tmp_path: Path, weights: Weights
) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", weights)
    checkpoint = open_checkpoint(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(ModelError, match="fetch the file again"):
        load_model(checkpoint, backend())


@pytest.mark.parametrize("kept", [4, 100, 0.5, 0.999])
def test_safetensors_cut_short_say_to_fetch_them_again(
    tmp_path: Path, weights: Weights, kept: float
) -> None:
    file = write_hugging_face(tmp_path, weights) / "model.safetensors"
    data = file.read_bytes()
    file.write_bytes(data[: int(kept if kept >= 1 else kept * len(data))])
    with pytest.raises(ModelError, match="fetch it again"):
        load(tmp_path)


def test_a_missing_shard_is_named(tmp_path: Path, weights: Weights) -> None:
    write_hugging_face(tmp_path, weights)
    index = {"weight_map": dict.fromkeys(weights, "model-00001-of-00001.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="model-00001-of-00001"):
        open_checkpoint(tmp_path)


def test_a_shard_outside_the_folder_is_refused(tmp_path: Path, weights: Weights) -> None:
    write_hugging_face(tmp_path / "m", weights)
    shutil.copy(tmp_path / "m" / "model.safetensors", tmp_path / "x.safetensors")
    index = {"weight_map": dict.fromkeys(weights, "../x.safetensors")}
    (tmp_path / "m" / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match=r"\.\./x\.safetensors"):
        open_checkpoint(tmp_path / "m")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_without_a_needed_file_says_which(
    tmp_path: Path, weights: Weights, name: str
) -> None:
    write_hugging_face(tmp_path, weights)
    (tmp_path / name).unlink()
    with pytest.raises(ModelError, match=name.removeprefix("model")):
        open_checkpoint(tmp_path)


def test_a_config_that_is_not_json_is_refused(tmp_path: Path, weights: Weights) -> None:
    write_hugging_face(tmp_path, weights)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json: not JSON"):
        open_checkpoint(tmp_path)


def test_a_path_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        open_checkpoint(tmp_path / "nothing")


def test_a_file_that_is_not_gguf_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "cat.gguf"
    path.write_bytes(b"JFIF" * 100)
    with pytest.raises(ModelError, match="not a GGUF file"):
        open_checkpoint(path)


def test_metadata_nested_without_end_is_refused(tmp_path: Path) -> None:
    array, depth = 9, 100_000
    path = tmp_path / "deep.gguf"
    path.write_bytes(
        b"GGUF"
        + struct.pack("<IQQ", 3, 0, 1)
        + struct.pack("<Q", 4)
        + b"deep"
        + struct.pack("<I", array)
        + struct.pack("<IQ", array, 1) * depth
    )
    with pytest.raises(ModelError, match="nested"):
        open_checkpoint(path)


@pytest.mark.model
def test_the_header_of_the_default_model_is_read_at_once_and_holds_what_it_should(
    default_gguf: Path,
) -> None:
    times_s: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        header = read_header(default_gguf)
        times_s.append(time.perf_counter() - began)
    # 0.1 s on a quiet machine; the `gguf` package's own reader takes 13 s.
    assert min(times_s) < 0.5
    assert header.file_bytes == 98_362_432
    kinds = Counter(gguf.GGMLQuantizationType(t.type_id).name for t in header.tensors.values())
    assert kinds == {"Q4_1": 210, "F32": 61, "Q8_0": 1}
    assert header.tensors["token_embd.weight"].type_id == gguf.GGMLQuantizationType.Q8_0
    assert "output.weight" not in header.tensors


def test_a_gguf_of_another_architecture_is_refused(tmp_path: Path, weights: Weights) -> None:
    path = write_gguf(tmp_path / "tiny.gguf", weights, architecture="falcon")
    with pytest.raises(ModelError, match="'falcon' is not supported"):
        open_checkpoint(path)


def test_a_checkpoint_states_its_kind_and_ends(tmp_path: Path, weights: Weights) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "tiny.gguf", weights))
    assert checkpoint.kind is CheckpointKind.GGUF
    assert checkpoint.eos_ids == (2,)


def test_the_fingerprint_survives_a_copy_and_notices_every_change(
    tmp_path: Path, weights: Weights
) -> None:
    folder = write_hugging_face(tmp_path / "a", weights)
    shutil.copytree(folder, tmp_path / "b")
    seen = [open_checkpoint(folder).fingerprint]
    assert open_checkpoint(tmp_path / "b").fingerprint == seen[0]
    (folder / "tokenizer.json").write_text('{"version": "1.0"}')
    seen.append(open_checkpoint(folder).fingerprint)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"rope_theta": 2e4}))
    seen.append(open_checkpoint(folder).fingerprint)
    write_hugging_face(folder, weights | {GATE: weights[GATE] * np.float32(1.01)})
    seen.append(open_checkpoint(folder).fingerprint)
    assert len(set(seen)) == len(seen)


def test_opening_a_checkpoint_does_not_import_torch(tmp_path: Path, weights: Weights) -> None:
    for path in (
        write_gguf(tmp_path / "tiny.gguf", weights),
        write_hugging_face(tmp_path / "hf", weights),
    ):
        run(OPEN, path)


OPEN: Final = """
import sys
from pathlib import Path
from netgain.models.checkpoint import open_checkpoint
open_checkpoint(Path(sys.argv[1]))
assert "torch" not in sys.modules
"""
GROWTH: Final = """
import sys
from pathlib import Path
from netgain.models.checkpoint import open_checkpoint
from netgain.models.loading import load_model
from netgain.ops.torch_backend import TorchBackend
def kib(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])
before = kib("VmRSS")
model = load_model(open_checkpoint(Path(sys.argv[1])), TorchBackend(threads=1))
print(kib("VmHWM") - before, kib("VmRSS") - before)
"""
ENGINE_GROWTH: Final = """
import sys
from pathlib import Path
from netgain.engine.llm import LLM
def kib(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1])
before = kib("VmRSS")
with LLM(sys.argv[1]) as llm:
    print(kib("VmHWM") - before, kib("VmRSS") - before)
"""


def run(code: str, path: Path) -> str:
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.model
@pytest.mark.parametrize(
    ("code", "least_kib"),
    [(GROWTH, 500_000), (ENGINE_GROWTH, 90_000)],  # in fp32; as stored, where kernels are native
    ids=["the model", "the whole engine"],
)
def test_loading_the_default_model_peaks_below_1_3_times_what_stays(
    default_gguf: Path, code: str, least_kib: int
) -> None:
    peak, final = map(int, run(code, default_gguf).split())
    assert final > least_kib
    assert peak <= 1.3 * final


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_loading_safetensors_peaks_below_1_3_times_what_stays(
    tmp_path: Path, weights: Weights
) -> None:
    """A large vocabulary makes the weights outweigh the libraries' own growth."""
    rows = 1 << 20
    embedding = np.full((rows, 64), 0.5, np.float32)
    write_hugging_face(tmp_path, weights | {"model.embed_tokens.weight": embedding})
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": rows}))
    peak, final = map(int, run(GROWTH, tmp_path).split())
    assert final > 250_000
    assert peak <= 1.3 * final
