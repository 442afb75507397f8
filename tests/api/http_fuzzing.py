"""Throws generated requests at a server of the tiny model, as its own description describes them.

`python -m tests.api.http_fuzzing` sends at least 5,000 (`--cases`), and fails for any answer that
is a server error, has an undocumented status, content type or body, or accepts what the description
forbids. (Not held against it: refusing what the description allows. A description cannot say that
prompt and answer must fit the context, nor that one field needs another.)
"""

import argparse
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.api.serving import serving
from tests.tiny_served import write_tiny_served

FLAGS = ("--served-model-name", "tiny", "--max-model-len", "64")
"""A short context: a generated request may ask for a hundred answers that fill it."""

MAX_EXAMPLES = 600
"""Per operation: with these, and those of the other phases, there are more than 5,000."""


@dataclass(frozen=True)
class Fuzzed:
    """How it went; `output` says for each failure how to see it again."""

    cases: int
    passed: bool
    output: str


def fuzz(url: str, max_examples: int, *, seed: int, phases: str = "coverage,fuzzing") -> Fuzzed:
    """Runs schemathesis against the server at `url`."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"),
                *("--checks", "all", "--exclude-checks", "positive_data_acceptance"),
                *("--phases", phases, "--max-examples", str(max_examples)),
                *("--seed", str(seed), "--no-color", "--warnings", "off"),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
        )
    generated = re.search(r"([\d,]+) generated", done.stdout)
    cases = 0 if generated is None else int(generated[1].replace(",", ""))
    return Fuzzed(cases, done.returncode == 0, done.stdout + done.stderr)


def main() -> int:
    """Serves, sends, and says how it went."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=int, default=5000, help="fail for fewer than so many")
    parser.add_argument("--max-examples", type=int, default=MAX_EXAMPLES)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = write_tiny_served(Path(folder) / "tiny")
        with serving("--model", str(model), *FLAGS) as server:
            fuzzed = fuzz(server.url, arguments.max_examples, seed=arguments.seed)
            server_errors = server.metric("netgain_http_errors_total", code="500")
    sys.stdout.write(fuzzed.output)
    sys.stdout.write(f"{fuzzed.cases} cases, {server_errors:.0f} server errors\n")
    return 0 if fuzzed.passed and not server_errors and fuzzed.cases >= arguments.cases else 1


if __name__ == "__main__":
    sys.exit(main())
