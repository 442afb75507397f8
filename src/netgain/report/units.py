"""Numbers for people: scaled, four significant digits, nothing counted rounded away."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from netgain.report.document import Cell

NOTHING: Final = "–"  # noqa: RUF001 (a dash is what a table's empty cell shows)
_TO: Final = "–"  # noqa: RUF001 (between two numbers)
_DIGITS: Final = 4
_DIGITS_OF_BOUNDS: Final = (3, 4, 5)
"""As few as tell the two apart."""

_BINARY: Final = (
    (1.0, "B"),
    (2.0**10, "KiB"),
    (2.0**20, "MiB"),
    (2.0**30, "GiB"),
    (2.0**40, "TiB"),
    (2.0**50, "PiB"),
)
_SI: Final = (
    (1.0, ""),
    (1e3, "k"),
    (1e6, "M"),
    (1e9, "G"),
    (1e12, "T"),
    (1e15, "P"),
    (1e18, "E"),
    (1e21, "Z"),
)
_TIME: Final = (
    (1e-9, "ns"),
    (1e-6, "µs"),
    (1e-3, "ms"),
    (1.0, "s"),
    (60.0, "min"),
    (3600.0, "h"),
    (86400.0, "d"),
)
_STAYS_SECONDS_BELOW: Final = 600.0
_STAYS_MINUTES_BELOW: Final = 7200.0
_STAYS_HOURS_BELOW: Final = 3 * 86400.0
_SI_UNITS: Final = {
    "bytes/s": "B/s",
    "bit/s": "bit/s",
    "FLOP": "FLOP",
    "FLOP/s": "FLOP/s",
    "FLOP/s/W": "FLOP/s/W",
    "bytes/s/W": "B/s/W",
    "OP/s": "OP/s",
    "W": "W",
    "J": "J",
    "Hz": "Hz",
}


@dataclass(frozen=True, slots=True)
class Scale:
    """A value in the base unit, divided by `factor`, is a value in `unit`."""

    factor: float
    unit: str


def scale_for(unit: str, magnitude: float) -> Scale:
    """The scale in which a value of this magnitude reads best.

    Memory ("bytes", "bytes/token", ...) scales by 1024, rates of bytes and everything physical by
    1000, time from nanoseconds to days; "fraction" becomes per cent; other units stay as they are.
    """
    size = abs(magnitude)
    if not math.isfinite(size):
        size = 0.0
    if unit == "fraction":
        return Scale(0.01, "%")
    if unit in _SI_UNITS:
        factor, prefix = _step(_SI, size, 1000.0)
        return Scale(factor, prefix + _SI_UNITS[unit])
    head, slash, tail = unit.partition("/")
    if head == "bytes":
        factor, name = _step(_BINARY, size, 1024.0)
        return Scale(factor, name + slash + tail)
    if head == "s":
        factor, name = _time_step(size)
        return Scale(factor, name + slash + tail)
    return Scale(1.0, unit)


def shared_scale(unit: str, values: Sequence[float]) -> Scale:
    """The scale in which these values read well side by side.

    That of the smallest, or of the smallest that leaves most of them below 10,000.
    """
    sizes = sorted(abs(value) for value in values if value and math.isfinite(value))
    if not sizes:
        return scale_for(unit, 0.0)
    median = sizes[(len(sizes) - 1) // 2]
    scales = [scale_for(unit, size) for size in sizes]
    return next((scale for scale in scales if median / scale.factor < 10_000), scales[-1])


def number(value: float) -> str:
    """A bare number: whole numbers exact with separators, others to four significant digits."""
    if isinstance(value, int):
        return f"{value:,}"
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    rounded = float(f"{value:.{_DIGITS}g}")
    if abs(rounded) >= 1e15:
        return f"{rounded:.{_DIGITS}g}".replace("e+", "e")
    if abs(rounded) >= 1000:
        return f"{value:,.0f}"
    return f"{rounded:.{_DIGITS}g}"


def quantity(value: Cell, unit: str = "") -> str:
    """A value with its unit, as people read it: `34359738368, "bytes"` is `32 GiB`.

    None and NaN are a dash, truth is yes or no, text stands as it is.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit.startswith("$"):
        sign = "-" if value < 0 else ""
        return f"{sign}${number(abs(value))}{unit[1:]}"
    scale = scale_for(unit, value)
    scaled = value if scale.factor == 1.0 else value / scale.factor
    if not scale.unit or unit == "ratio":
        return number(scaled)
    return f"{number(scaled)} {scale.unit}"


def bounds(low: Cell, high: Cell, unit: str = "") -> str:
    """A range as people read it, in one unit: `150-152 ms`, `≥ 150 ms` where it has no end."""
    numbers = [
        None if not isinstance(bound, (int, float)) or math.isnan(bound) else float(bound)
        for bound in (low, high)
    ]
    known = [bound for bound in numbers if bound is not None]
    if not known:
        return NOTHING
    scale = scale_for(unit, max(known, key=abs))
    texts = [""]
    for digits in _DIGITS_OF_BOUNDS:
        texts = [_short(bound / scale.factor, digits) for bound in known]
        if len(set(texts)) == len(set(known)):
            break
    if len(known) == 1:
        text = f"{'≥' if numbers[1] is None else '≤'} {texts[0]}"
    else:
        text = texts[0] if texts[0] == texts[1] else _TO.join(texts)
    return f"{text} {scale.unit}" if scale.unit and unit != "ratio" else text


def exact_count(value: Cell, unit: str) -> str:
    """The unscaled form of a counted value that `quantity` shows scaled; otherwise empty."""
    if isinstance(value, bool) or not isinstance(value, int):
        return ""
    scale = scale_for(unit, value)
    if scale.factor == 1.0 or unit.startswith(("s", "$")):
        return ""
    base = unit.replace("bytes", "B", 1) if unit.startswith("bytes") else unit
    return f"{value:,} {base}"


def _short(value: float, digits: int) -> str:
    if not math.isfinite(value) or abs(value) >= 1000:
        return number(value)
    return f"{value:.{digits}g}"


def _step(steps: tuple[tuple[float, str], ...], size: float, base: float) -> tuple[float, str]:
    for factor, name in steps:
        # Rounded first: 999.96 MB is 1 GB, not 1000 MB.
        if float(f"{size / factor:.{_DIGITS}g}") < base:
            return factor, name
    return steps[-1]


def _time_step(size: float) -> tuple[float, str]:
    if size == 0:
        return 1.0, "s"
    seconds = 3
    if size >= _STAYS_HOURS_BELOW:
        return _TIME[-1]
    if size >= _STAYS_MINUTES_BELOW:
        return _TIME[-2]
    if size >= _STAYS_SECONDS_BELOW:
        return _TIME[-3]
    for factor, name in _TIME[:seconds]:
        if float(f"{size / factor:.{_DIGITS}g}") < 1000.0:
            return factor, name
    return _TIME[seconds]
