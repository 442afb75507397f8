"""A page as a real browser without a screen sees it."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_LIMIT_S = 120
# What a browser tells about itself, not about the page, when it makes a request of its own.
_BROWSER_ITSELF = "not an origin"


@dataclass(frozen=True)
class Visit:
    """The document after its scripts ran, what the console said, what the page asked for."""

    dom: str
    console: tuple[str, ...]
    requests: tuple[str, ...]


def find_browser() -> str:
    """Its path. Skips the test, saying why, where none is."""
    stated = os.environ.get("CHROMIUM")
    found = shutil.which(stated) if stated else next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(
            f"CHROMIUM={stated} is not there"
            if stated
            else "no Chromium on PATH; install chromium or set CHROMIUM to its path"
        )
    return found


def visit(page: Path, folder: Path) -> Visit:
    """Opens a local file without a network and runs its scripts to the end."""
    net_log = folder / "net-log.json"
    done = subprocess.run(
        [
            find_browser(),
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--no-first-run",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            f"--log-net-log={net_log}",
            "--virtual-time-budget=20000",
            "--window-size=1200,900",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_LIMIT_S,
        check=True,
    )
    console = tuple(re.findall(r":CONSOLE[(:].*", done.stderr))
    return Visit(done.stdout, console, _requests(net_log.read_text()))


def _requests(net_log: str) -> tuple[str, ...]:
    try:
        log = json.loads(net_log)
    except json.JSONDecodeError:  # the browser ended before it closed its list
        log = json.loads(net_log.rstrip().rstrip(",") + "]}")
    found = []
    for event in log["events"]:
        asked = event.get("params", {})
        if "url" in asked and asked.get("initiator", _BROWSER_ITSELF) != _BROWSER_ITSELF:
            found.append(asked["url"])
    return tuple(url for url in found if not url.startswith(("data:", "blob:")))
