"""A chart as the data and layout that plotly.js draws; colours of the theme come on the page."""

import math
from collections.abc import Sequence
from typing import Final

from netgain.report.axis_scale import AxisScale, scale_x, scale_y
from netgain.report.document import Chart, Mark, Series
from netgain.report.json_form import Json

_COLORS: Final = (
    "#3b82d6",
    "#e07b28",
    "#2a9d72",
    "#c2559d",
    "#8a6fd1",
    "#c9a227",
    "#4aa8c0",
    "#d1495b",
    "#7d8b99",
)
"""Told apart by people who see no red or no green, and on either ground."""
_HEIGHT_PX: Final = 400
_ROW_PX: Final = 18
_TALLEST_PX: Final = 1200
_LABELLED_ROWS: Final = 20
_DENSE: Final = 60
"""From so many points on a line its markers are left out."""


def plotly_chart(chart: Chart) -> dict[str, Json]:
    """`data` and `layout` for `Plotly.react`."""
    x, y = scale_x(chart), scale_y(chart)
    layout: dict[str, Json] = {
        "height": _height_px(chart),
        "margin": {"l": 72, "r": 24, "t": 12, "b": 56},
        "colorway": list(_COLORS),
        "showlegend": len(chart.series) > 1,
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
        "barmode": "overlay" if _is_timeline(chart) else "group",
        "xaxis": _axis(x),
        "yaxis": _axis(y) | (_rows_axis(chart, y) if _is_timeline(chart) else {}),
    }
    return {"data": [_trace(series, x, y) for series in chart.series], "layout": layout}


def _is_timeline(chart: Chart) -> bool:
    return any(series.mark is Mark.SPANS for series in chart.series)


def _height_px(chart: Chart) -> int:
    if not _is_timeline(chart):
        return _HEIGHT_PX
    return min(max(_HEIGHT_PX, 120 + _ROW_PX * _rows(chart)), _TALLEST_PX)


def _rows(chart: Chart) -> int:
    return len({row for series in chart.series for row in series.y})


def _rows_axis(chart: Chart, y: AxisScale) -> dict[str, Json]:
    """A timeline's rows: the first on top, whole numbers counted."""
    axis: dict[str, Json] = {"autorange": "reversed"}
    if not y.categories:
        axis |= {"tick0": 0, "dtick": math.ceil(_rows(chart) / _LABELLED_ROWS)}
    return axis


def _axis(scale: AxisScale) -> dict[str, Json]:
    axis: dict[str, Json] = {"title": {"text": literal(scale.title)}, "automargin": True}
    if scale.categories:
        axis["type"] = "category"
        axis["categoryorder"] = "array"
        axis["categoryarray"] = [literal(name) for name in scale.categories]
    elif scale.log:
        axis["type"] = "log"
        axis["exponentformat"] = "none"
    else:
        axis["type"] = "linear"
        axis["exponentformat"] = "none"
    return axis


def _trace(series: Series, x: AxisScale, y: AxisScale) -> dict[str, Json]:
    across, up = _places(x, series.x), _places(y, series.y)
    trace: dict[str, Json] = {"name": literal(series.name), "x": across, "y": up}
    if len(series.texts):
        trace["hovertext"] = [literal(text).replace("\n", "<br>") for text in series.texts]
        trace["hoverinfo"] = "x+y+name+text"
    if series.mark is Mark.SPANS:
        ends = _places(x, series.x_end)
        trace |= {"type": "bar", "orientation": "h", "base": across, "x": _lengths(across, ends)}
    elif series.mark is Mark.BARS:
        trace |= {"type": "bar"}
    else:
        trace |= {"type": "scatter", "mode": _mode(series)}
        if series.mark is Mark.STEPS:
            trace["line"] = {"shape": "hv"}
    return trace


def _mode(series: Series) -> str:
    if series.mark is Mark.POINTS:
        return "markers"
    if series.mark is Mark.STEPS or len(series.x) >= _DENSE:
        return "lines"
    return "lines+markers"


def _places(scale: AxisScale, values: Sequence[float | str]) -> list[Json]:
    places = (scale.place(value) for value in values)
    return [literal(place) if isinstance(place, str) else place for place in places]


def _lengths(starts: Sequence[Json], ends: Sequence[Json]) -> list[Json]:
    return [
        end - start if isinstance(start, float) and isinstance(end, float) else None
        for start, end in zip(starts, ends, strict=True)
    ]


def literal(text: str) -> str:
    """Text that plotly.js shows as it is: it reads a little HTML in every label."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
