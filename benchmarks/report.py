"""What every benchmark says about where its numbers come from."""

import json
import os
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from netgain.hardware.host import processor_name

JSON = Mapping[str, object]
_MATTER: Final = (
    *("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_int8", "amx_bf16", "asimd", "asimddp", "i8mm", "bf16", "sve", "sve2"),
)


def machine() -> dict[str, object]:
    """Processor, cores and system."""
    return {
        "cpu": processor_name(),
        "cores": len(os.sched_getaffinity(0)),
        "isa": instruction_sets(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": platform.platform(),
        "load_average": os.getloadavg()[0],
    }


def instruction_sets() -> list[str]:
    """Those of the processor's flags that matter to matrix kernels."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith(("flags", "Features")):
            flags = set(line.partition(":")[2].split())
            return [name for name in _MATTER if name in flags]
    return []


def command() -> str:
    """How this benchmark was started, with the instruction set if one was chosen."""
    spec = sys.modules["__main__"].__spec__
    name = spec.name.removesuffix(".__main__") if spec else Path(sys.argv[0]).name
    isa = os.environ.get("NETGAIN_ISA")
    chosen = f"NETGAIN_ISA={shlex.quote(isa)} " if isa else ""
    return chosen + shlex.join(["python", "-m", name, *sys.argv[1:]])


def write(
    path: Path | None,
    rows: Sequence[JSON],
    packages: Sequence[str] = (),
    extra: JSON | None = None,
) -> None:
    """Writes rows with machine, versions, command and time, and `extra`; `-` prints them."""
    if path is None:
        return
    content = json.dumps(
        {
            "command": command(),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine(),
            "versions": {"python": platform.python_version()}
            | {name: version(name) for name in ("netgain", *packages)},
            "rows": list(rows),
        }
        | dict(extra or {}),
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
