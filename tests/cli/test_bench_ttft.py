"""`netgain bench ttft` as a user meets it, against a scripted server."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.report.browser import visit

from netgain.lab.scripted_server.script import Script
from netgain.lab.scripted_server.server import ScriptedServer


def test_the_interference_experiment_runs_on_a_given_server(tmp_path: Path) -> None:
    page = tmp_path / "ttft.html"
    with ScriptedServer(Script(first_s=0.05, gap_s=0.01, tokens=6)) as server:
        done = subprocess.run(
            [
                *(sys.executable, "-m", "netgain", "bench", "ttft", server.url, "--json"),
                *("-d", "2", "--long", "64", "--shares", "0,0.4", "--html", str(page)),
                *("--decoder-rate", "4", "--short-rate", "6"),
            ],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    tables = json.loads(done.stdout)["tables"]
    calm, busy = tables["interference_arms"]["rows"]
    assert (calm["arm"], busy["arm"]) == ("0% long prompts", "40% long prompts")
    assert calm["long_share"] == 0
    assert busy["long_share"] > 0
    assert calm["short_ttft_p50_s"] >= 0.05
    assert calm["errors"] == busy["errors"] == 0
    missing = {row["arm"] for row in tables["interference_not_available"]["rows"]}
    assert "separate pools, 2 prefill to 2 decode" in missing
    seen = visit(page, tmp_path)
    assert (seen.console, seen.requests) == ((), ())
    assert 'id="interference_itl"' in seen.dom
