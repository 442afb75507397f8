"""The Python examples of README and docs run as they stand."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def examples(page: str) -> list[str]:
    """Fenced Python blocks, and Python given to an interpreter in a shell block."""
    text = (ROOT / page).read_text("utf-8")
    fenced = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return fenced + re.findall(r"python - <<'END'\n(.*?)END\n", text, re.DOTALL)


@pytest.mark.model
@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("README.md", "Paris"),
        ("docs/python.md", "The capital of France is Paris."),
        ("docs/simulation.md", "modelled TTFT p50"),
    ],
)
def test_the_examples_of_a_page_run_as_they_stand(default_gguf: Path, page: str, says: str) -> None:
    assert default_gguf.is_file()
    found = examples(page)
    assert found
    for code in found:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        assert says in done.stdout
