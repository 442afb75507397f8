"""A chart drawn with characters."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Protocol

from netgain.report.axis_scale import AxisScale, scale_x, scale_y
from netgain.report.document import Chart, Mark, Series
from netgain.report.printable import printable
from netgain.report.units import number

_NARROWEST: Final = 40
_FRAME: Final = 4
"""Lines of a plot that hold no data: the frame, the ticks, the labels."""
_HEIGHT: Final = 20
_TALLEST: Final = 40
_TICKS: Final = 6
_FINEST: Final = 400
"""Steps along an axis, finer than any character: what lies closer is one place."""
_BAR_WIDTH: Final = 0.8
_ALONE: Final = "braille"
_MARKERS: Final = ("●", "x", "+", "o", "*", "#", "@", "%")

_Pair = tuple[float, float]


class _Signal(Protocol):
    def lines(self, active: bool = True) -> "_Signal": ...


class _Ruler(Protocol):
    def lim(self, lower: float, upper: float) -> object: ...
    def ticks(self, positions: list[float], labels: list[str]) -> object: ...


class _Matrix(Protocol):
    def string(self) -> str: ...


class _Plot(Protocol):
    """What is used of plotext's figure, which is not typed."""

    def theme(self, name: str) -> object: ...
    def plot_size(self, width: int, height: int) -> object: ...
    def signal(self, x: list[float], y: list[float], *, marker: str) -> _Signal: ...
    def rectangle(self, x: _Pair, y: _Pair, *, marker: str) -> object: ...
    def draw(self, signal: object) -> object: ...
    def label(self, label: str, axis: str) -> object: ...
    def ruler(self, axis: str) -> _Ruler: ...
    def build(self) -> _Matrix: ...
    def clear(self) -> object: ...


@dataclass(frozen=True, slots=True)
class _Drawing:
    """One series in canvas units (logarithms, or 1, 2, ... for categories)."""

    name: str
    marker: str
    joined: bool
    points: tuple[_Pair, ...] = ()
    boxes: tuple[tuple[_Pair, _Pair], ...] = ()


def plot_text(chart: Chart, width: int, *, color: bool) -> str:
    """The chart as lines of `width` characters (at least 40); colours are ANSI codes.

    Bars over words lie on their side, so that the words can be read.
    """
    import plotext

    x, y = scale_x(chart), scale_y(chart)
    sideways = bool(x.categories) and all(s.mark is Mark.BARS for s in chart.series)
    drawings = _drawings(chart, x, y)
    if not any(d.points or d.boxes for d in drawings):
        return "(nothing to draw)"
    if sideways:
        drawings = [_turned(drawing) for drawing in drawings]
        x, y = y, x
    downwards = sideways or any(series.mark is Mark.SPANS for series in chart.series)
    if downwards:
        drawings = [_flipped(drawing) for drawing in drawings]
    plot: _Plot = plotext.figure
    plot.clear()
    try:
        plot.theme("simple" if color else "colorless")
        plot.plot_size(max(width, _NARROWEST), _height(y, len(drawings), sideways=sideways))
        across, up = _extents(drawings)
        for drawing in drawings:
            _draw(plot, _thinned(drawing, across, up))
        _rule(plot, "x", x, across)
        _rule(plot, "y", y, up, downwards=downwards)
        lines = plot.build().string().rstrip("\n")
    finally:
        plot.clear()
    text = lines if color else str(plotext.uncolorize(lines))
    return "\n".join((*_legend(drawings, width), *(line.rstrip() for line in text.split("\n"))))


def _height(y: AxisScale, series: int, *, sideways: bool) -> int:
    if sideways:  # a row a series, and one of air after each word
        return len(y.categories) * (series + 1) + _FRAME
    return min(max(_HEIGHT, len(y.categories) + _FRAME), _TALLEST)


def _drawings(chart: Chart, x: AxisScale, y: AxisScale) -> list[_Drawing]:
    bars = [series for series in chart.series if series.mark is Mark.BARS]
    found = []
    for index, series in enumerate(chart.series):
        marker = _ALONE if len(chart.series) == 1 else _MARKERS[index % len(_MARKERS)]
        joined = series.mark in (Mark.LINE, Mark.STEPS)
        if series.mark is Mark.BARS:
            boxes = _bars(series, x, y, bars.index(series), len(bars))
            found.append(_Drawing(series.name, _solid(marker), joined, boxes=boxes))
        elif series.mark is Mark.SPANS:
            found.append(_Drawing(series.name, _solid(marker), joined, boxes=_spans(series, x, y)))
        else:
            points = _points(series, x, y)
            if series.mark is Mark.STEPS:
                points = _stepped(points)
            found.append(_Drawing(series.name, marker, joined, points))
    return found


def _solid(marker: str) -> str:
    return "█" if marker == _ALONE else marker


def _at(scale: AxisScale, value: float | str) -> float | None:
    place = scale.place(value)
    if place is None:
        return None
    if isinstance(place, str):
        return scale.categories.index(place) + 1.0
    return math.log10(place) if scale.log else place


def _points(series: Series, x: AxisScale, y: AxisScale) -> tuple[_Pair, ...]:
    pairs = ((_at(x, a), _at(y, b)) for a, b in zip(series.x, series.y, strict=True))
    return tuple((a, b) for a, b in pairs if a is not None and b is not None)


def _stepped(points: Sequence[_Pair]) -> tuple[_Pair, ...]:
    steps: list[_Pair] = []
    for x, y in points:
        if steps:
            steps.append((x, steps[-1][1]))
        steps.append((x, y))
    return tuple(steps)


def _spans(series: Series, x: AxisScale, y: AxisScale) -> tuple[tuple[_Pair, _Pair], ...]:
    boxes = []
    for start, end, row in zip(series.x, series.x_end, series.y, strict=True):
        left, right, middle = _at(x, start), _at(x, end), _at(y, row)
        if left is not None and right is not None and middle is not None:
            boxes.append(((left, right), (middle, middle)))
    return tuple(boxes)


def _bars(
    series: Series, x: AxisScale, y: AxisScale, index: int, bars: int
) -> tuple[tuple[_Pair, _Pair], ...]:
    points = _points(series, x, y)
    places = sorted({place for place, _ in points})
    gaps = [b - a for a, b in pairwise(places)]
    slot = _BAR_WIDTH * min(gaps, default=1.0) / bars
    # A bar on a logarithmic axis has no zero to stand on: it stands a decade below its shortest.
    foot = min((top for _, top in points), default=0.0) - 1.0 if y.log else 0.0
    boxes = []
    for place, top in points:
        middle = place + (index - (bars - 1) / 2) * slot
        boxes.append(((middle - slot / 4, middle + slot / 4), (foot, top)))
    return tuple(boxes)


def _turned(drawing: _Drawing) -> _Drawing:
    boxes = tuple(((a, b), ((c + d) / 2,) * 2) for (c, d), (a, b) in drawing.boxes)
    return _Drawing(drawing.name, drawing.marker, drawing.joined, boxes=boxes)


def _flipped(drawing: _Drawing) -> _Drawing:
    """The first row on top."""
    points = tuple((x, -y) for x, y in drawing.points)
    boxes = tuple((x, (-b, -a)) for x, (a, b) in drawing.boxes)
    return _Drawing(drawing.name, drawing.marker, drawing.joined, points, boxes)


def _draw(plot: _Plot, drawing: _Drawing) -> None:
    if drawing.points:
        across = [x for x, _ in drawing.points]
        up = [y for _, y in drawing.points]
        signal = plot.signal(across, up, marker=drawing.marker)
        plot.draw(signal.lines() if drawing.joined else signal)
    for x, y in drawing.boxes:
        plot.draw(plot.rectangle(x, y, marker=drawing.marker))


def _thinned(drawing: _Drawing, across: _Pair, up: _Pair) -> _Drawing:
    """Without what falls on a place already drawn: a plot of 100,000 points takes no seconds."""

    def cell(value: float, extent: _Pair) -> int:
        low, high = extent
        return round((value - low) / (high - low) * _FINEST) if high > low else 0

    points: list[_Pair] = []
    last = None
    for x, y in drawing.points:
        place = (cell(x, across), cell(y, up))
        if place != last:
            points.append((x, y))
        last = place
    boxes = {
        (*(cell(a, across) for a in x), *(cell(b, up) for b in y)): (x, y) for x, y in drawing.boxes
    }
    return replace(drawing, points=tuple(points), boxes=tuple(boxes.values()))


def _extents(drawings: Sequence[_Drawing]) -> tuple[_Pair, _Pair]:
    across = [x for d in drawings for x, _ in d.points]
    up = [y for d in drawings for _, y in d.points]
    for drawing in drawings:
        for x, y in drawing.boxes:
            across.extend(x)
            up.extend(y)
    return (min(across), max(across)), (min(up), max(up))


def _rule(
    plot: _Plot, axis: str, scale: AxisScale, extent: _Pair, *, downwards: bool = False
) -> None:
    low, high = extent if not downwards else (-extent[1], -extent[0])
    if scale.categories:
        low, high = 0.5, len(scale.categories) + 0.5
        every = max(1, math.ceil(len(scale.categories) / _TALLEST))
        names = scale.categories[::every]
        ticks = [(1.0 + every * i, printable(name)) for i, name in enumerate(names)]
    elif scale.log:
        ticks = _decades(low, high)
    else:
        # Rows of a timeline are counted, not measured.
        ticks = [(t, number(t)) for t in _even(low, high, least_step=1.0 if downwards else 0.0)]
    if low == high:
        low, high = low - 0.5, high + 0.5
    if downwards:
        low, high = -high, -low
        ticks = [(-place, text) for place, text in reversed(ticks)]
    ruler = plot.ruler(axis)
    ruler.lim(low, high)
    ruler.ticks([place for place, _ in ticks], [text for _, text in ticks])
    plot.label(printable(scale.title), axis)


def _even(low: float, high: float, *, least_step: float) -> list[float]:
    """Round numbers from `low` to `high`, about six."""
    if low == high:
        return [low]
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(least_step, next(m * power for m in (1, 2, 5, 10) if m * power >= rough))
    first, last = math.ceil(low / step), math.floor(high / step)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _decades(low: float, high: float) -> list[tuple[float, str]]:
    """Powers of ten between two logarithms, with 2 and 5 where few are."""
    digits = (1, 2, 5) if high - low < 3 else (1,)
    every = max(1, math.ceil((high - low) / _TICKS))
    ticks = []
    for power in range(math.floor(low), math.ceil(high) + 1, every):
        for digit in digits:
            place = power + math.log10(digit)
            if low - 1e-9 <= place <= high + 1e-9:
                ticks.append((place, number(digit * 10.0**power)))
    return ticks or [(low, number(10.0**low)), (high, number(10.0**high))]


def _legend(drawings: Sequence[_Drawing], width: int) -> tuple[str, ...]:
    """Names beside their markers, as many a line as it holds."""
    if len(drawings) == 1:
        return ()
    lines: list[str] = []
    for drawing in drawings:
        entry = f"{drawing.marker} {printable(drawing.name)}"
        if lines and len(lines[-1]) + 2 + len(entry) <= width:
            lines[-1] += f"  {entry}"
        else:
            lines.append(entry)
    return tuple(lines)
