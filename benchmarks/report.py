"""What every benchmark says about where its numbers come from."""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

JSON = Mapping[str, object]


def machine() -> dict[str, object]:
    """Processor, cores and system."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "system": platform.platform()}


def write(path: Path | None, rows: Sequence[JSON], packages: Sequence[str] = ()) -> None:
    """Writes rows with machine, versions, command and time; `-` prints them."""
    if path is None:
        return
    content = json.dumps(
        {
            "command": f"python -m benchmarks.{Path(sys.argv[0]).stem} {' '.join(sys.argv[1:])}",
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in ("netgain", *packages)},
            "rows": list(rows),
        },
        indent=2,
    )
    if str(path) == "-":
        print(content)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")


def show(title: str, rows: Sequence[JSON]) -> None:
    """Prints rows as a table; the keys of the first are the columns."""
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    Console(stderr=False).print(table)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
