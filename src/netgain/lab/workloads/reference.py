"""Tables of every workload's parameters, made from the types that accept them.

`python -m netgain.lab.workloads.reference FILE...` rewrites what stands in each Markdown file
between `<!-- workload: NAME -->` and `<!-- end -->`; a test compares.
"""

import re
import sys
from pathlib import Path
from typing import Final

from netgain.lab.workloads.parameters import Parameterised
from netgain.lab.workloads.registry import SYNTHETIC, TRACES

_BLOCK: Final = re.compile(r"(<!-- workload: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def parameter_tables() -> dict[str, str]:
    """Every workload's line and table, by its name."""
    kinds: dict[str, type[Parameterised]] = dict(SYNTHETIC)
    kinds |= {str(name): kind for name, kind in TRACES.items()}
    return {name: _table(kind) for name, kind in kinds.items()}


def rewritten(page: str) -> str:
    """The page with its tables as they should be. Raises `KeyError` for an unknown name."""
    made = parameter_tables()
    return _BLOCK.sub(lambda block: f"{block[1]}\n{made[block[2]]}\n{block[3]}", page)


def _table(kind: type[Parameterised]) -> str:
    lines = [f"{kind.about}.", "", "| parameter | form | default | what |", "|---|---|---|---|"]
    for parameter in kind.parameters():
        default = "required" if parameter.default is None else f"`{parameter.default}`"
        shown = "none" if parameter.default == "None" else default
        lines.append(f"| `{parameter.key}` | {parameter.form} | {shown} | {parameter.about} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Rewrites the files named on the command line."""
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(rewritten(path.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
