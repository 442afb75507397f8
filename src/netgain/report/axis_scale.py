"""How a chart's axis is labelled: its unit, its categories, what its values become on it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from netgain.report.document import Axis, Chart, Mark
from netgain.report.units import scale_for


@dataclass(frozen=True, slots=True)
class AxisScale:
    """`categories` where the axis holds words instead of numbers (then nothing is scaled)."""

    title: str
    factor: float
    log: bool
    categories: tuple[str, ...] = ()

    def place(self, value: float | str) -> float | str | None:
        """What is drawn for it: a category, a scaled number, or None for what has no place."""
        if self.categories:
            return str(value)
        number = float(value) / self.factor
        if not math.isfinite(number) or (self.log and number <= 0):
            return None
        return number


def scale_x(chart: Chart) -> AxisScale:
    """The x axis's, from all series; a timeline's ends count."""
    values: list[float | str] = []
    for series in chart.series:
        values.extend(series.x)
        if series.mark is Mark.SPANS:
            values.extend(series.x_end)
    return _scale(chart.x, values)


def scale_y(chart: Chart) -> AxisScale:
    """The y axis's, from all series."""
    return _scale(chart.y, [value for series in chart.series for value in series.y])


def _scale(axis: Axis, values: Sequence[float | str]) -> AxisScale:
    if any(isinstance(value, str) for value in values):
        return AxisScale(axis.label, 1.0, log=False, categories=_in_order(values))
    sizes = [abs(float(value)) for value in values]
    sizes = [size for size in sizes if math.isfinite(size) and size > 0]
    magnitude = 0.0
    if sizes and axis.log:
        # The middle of a logarithmic axis: neither end reads as thousands or thousandths.
        magnitude = math.sqrt(min(sizes)) * math.sqrt(max(sizes))
    elif sizes:
        magnitude = max(sizes)
    scale = scale_for(axis.unit, magnitude)
    title = f"{axis.label} ({scale.unit})" if scale.unit else axis.label
    return AxisScale(title, scale.factor, axis.log)


def _in_order(values: Iterable[float | str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(value) for value in values))
