"""The native library is compiled at install, or the install goes on without it and says why."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

from netgain.ops.cpu.build import find_compiler
from netgain.ops.cpu.library import Library, load
from netgain.ops.cpu.sources import ARM_FLAGS, BUILD_COMMAND, HERE, LIBRARY_NAME, X86_FLAGS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path("netgain/ops/cpu/native")
LIBRARY = SOURCES / LIBRARY_NAME
# Quick to compile; how fast it runs is no matter here.
QUICK = {"NETGAIN_BUILD_ISA": "plain", "CXXFLAGS": "-O0"}

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, as an sdist holds it: without git and without a library."""
    project = tmp_path_factory.mktemp("project")
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, project)
    ignored = shutil.ignore_patterns("__pycache__", "_native.*")
    shutil.copytree(ROOT / "src", project / "src", ignore=ignored)
    return project


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in {"CXX", "CXXFLAGS", "NETGAIN_BUILD_ISA", "NETGAIN_ISA", "PYTHONPATH"}
    }
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, env={**inherited, **environment}
    )


def build(target: str, project: Path, **environment: str) -> tuple[Path, str]:
    """The artifact that a build made, and what it printed."""
    folder = project / "dist" / f"{len(list(project.glob('dist/*')))}"
    done = run(
        *(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)),
        cwd=project,
        **environment,
    )
    assert done.returncode == 0, done.stderr
    (artifact,) = folder.iterdir()
    return artifact, done.stdout + done.stderr


def unpacked(wheel: Path) -> Path:
    folder = wheel.parent / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def loaded(site: Path, **environment: str) -> str:
    """What `load` answers in an installation."""
    code = """
from netgain.ops.cpu.library import Unavailable, load
library = load()
print(library.reason if isinstance(library, Unavailable) else f"{library.isa} in {library.path}")
"""
    done = run(sys.executable, "-c", code, cwd=site, PYTHONPATH=str(site), **environment)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


@pytest.fixture(scope="module")
def built(project: Path) -> tuple[Path, str]:
    return build("wheel", project, **QUICK)


@pytest.fixture(scope="module")
def installed(built: tuple[Path, str]) -> Path:
    return unpacked(built[0])


def copied(installed: Path, tmp_path: Path) -> Path:
    shutil.copytree(installed / "netgain", tmp_path / "netgain")
    return tmp_path


def test_without_a_compiler_the_wheel_is_pure_and_the_reason_is_one_sentence(
    project: Path, tmp_path: Path
) -> None:
    wheel, output = build("wheel", project, PATH=str(tmp_path))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert f"no C++ compiler was found; install g++ and run: {BUILD_COMMAND}" in output
    site = unpacked(wheel)
    assert not (site / LIBRARY).exists()
    assert loaded(site) == (
        "when netgain was installed, no C++ compiler was found; install g++ and run: "
        f"{BUILD_COMMAND}"
    )


def test_a_compiler_that_is_not_there_is_named(project: Path) -> None:
    wheel, _ = build("wheel", project, CXX="/nonexistent")
    assert "CXX=/nonexistent was not found" in loaded(unpacked(wheel))


@needs_compiler
def test_a_compiler_that_fails_does_not_fail_the_install(project: Path, tmp_path: Path) -> None:
    compiler = tmp_path / "broken"
    compiler.write_text("#!/bin/sh\necho 'x.cpp:1:1: error: no room'\nexit 1\n")
    compiler.chmod(0o755)
    wheel, _ = build("wheel", project, CXX=str(compiler))
    assert wheel.name.endswith("-py3-none-any.whl")
    assert re.fullmatch(
        r"when netgain was installed, broken could not make \w+\.cpp \(x\.cpp:1:1: error: no room\)"
        rf"; for all it says, run: {BUILD_COMMAND}",
        loaded(unpacked(wheel)),
    )


@needs_compiler
def test_a_library_can_be_built_after_the_install(project: Path, tmp_path: Path) -> None:
    site = unpacked(build("wheel", project, CXX="/nonexistent")[0])
    done = run(
        *(sys.executable, "-m", "netgain.ops.cpu.build"), cwd=site, PYTHONPATH=str(site), **QUICK
    )
    assert done.returncode == 0, done.stdout
    assert loaded(site).startswith("plain in ")


@needs_compiler
def test_with_a_compiler_the_wheel_holds_the_library_and_names_the_platform(
    built: tuple[Path, str], installed: Path
) -> None:
    wheel, output = built
    platform = re.sub(r"\W", "_", sysconfig.get_platform())
    if platform.startswith("linux"):
        assert wheel.name.endswith(f"-py3-none-{platform}.whl")
    assert "native CPU library compiled by" in output
    assert loaded(installed) == f"plain in {installed / LIBRARY}"


@needs_compiler
def test_building_a_wheel_leaves_the_source_tree_as_it_was(
    project: Path, built: tuple[Path, str]
) -> None:
    assert not list((project / "src" / SOURCES).glob("_native.*"))


def test_a_library_that_lies_about_stays_out_of_a_wheel(project: Path) -> None:
    stray = project / "src" / LIBRARY
    stray.write_bytes(b"not this")
    try:
        wheel, _ = build("wheel", project, CXX="/nonexistent")
    finally:
        stray.unlink()
    assert str(LIBRARY) not in zipfile.ZipFile(wheel).namelist()


def test_an_sdist_holds_the_sources_and_the_hook(project: Path) -> None:
    archive, _ = build("sdist", project)
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    sources = {f"src/{SOURCES}/{path.name}" for path in (HERE / "native").glob("*.[ch]*")}
    assert {"hatch_build.py", "src/netgain/ops/cpu/build.py", *sources} <= names


@needs_compiler
def test_a_build_that_fails_leaves_the_library_that_is_there(
    installed: Path, tmp_path: Path
) -> None:
    site = copied(installed, tmp_path)
    done = run(
        *(sys.executable, "-m", "netgain.ops.cpu.build"),
        cwd=site,
        PYTHONPATH=str(site),
        CXX="/nonexistent",
    )
    assert done.returncode != 0
    assert loaded(site).startswith("plain in ")


@needs_compiler
def test_a_library_of_other_sources_is_refused(installed: Path, tmp_path: Path) -> None:
    site = copied(installed, tmp_path)
    with (site / SOURCES / "pack.h").open("a") as header:
        header.write("// changed\n")
    assert loaded(site) == (
        f"the native CPU library was built from other sources; rebuild with: {BUILD_COMMAND}"
    )


@needs_compiler
def test_a_library_without_its_sources_is_taken(installed: Path, tmp_path: Path) -> None:
    site = copied(installed, tmp_path)
    for source in (site / SOURCES).glob("*.[ch]*"):
        source.unlink()
    assert loaded(site).startswith("plain in ")


@needs_compiler
def test_a_broken_library_is_refused_with_what_to_do(installed: Path, tmp_path: Path) -> None:
    site = copied(installed, tmp_path)
    (site / LIBRARY).write_bytes(b"no library")
    assert re.fullmatch(rf".* cannot be loaded \(.*\); rebuild with: {BUILD_COMMAND}", loaded(site))


@needs_compiler
@pytest.mark.parametrize("isa", ["sse9", "avx2", "neon", "PLAIN"])
def test_an_instruction_set_that_cannot_be_used_is_refused(installed: Path, isa: str) -> None:
    assert loaded(installed, NETGAIN_ISA=isa) == (
        f"netgain.errors.ConfigurationError: NETGAIN_ISA={isa} is not an instruction set of this "
        "library and processor; choose one of: plain"
    )


@needs_compiler
def test_this_environment_has_a_library_and_each_of_its_instruction_sets_can_be_chosen() -> None:
    library = load()
    assert isinstance(library, Library), library.reason
    assert library.supported[-1] == "plain"
    for isa in library.supported:
        assert loaded(ROOT / "src", NETGAIN_ISA=isa).startswith(f"{isa} in ")


def test_every_instruction_set_has_flags_and_a_source() -> None:
    sources = {path.stem.removeprefix("isa_") for path in (HERE / "native").glob("isa_*.cpp")}
    assert sources == {"plain", *X86_FLAGS, *ARM_FLAGS}
