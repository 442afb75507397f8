"""Which part of a run is measured: warm-up and cool-down by rule, not by eye.

The steady window lies between the end of ramp-in and the start of the last drain. Latencies are
those of the requests that *start* in it, however late they end; throughput is what *happens* in it.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np

from netgain.errors import ConfigurationError
from netgain.lab.metrics.columns import BoolArray, FloatArray, RequestColumns
from netgain.lab.run_header import LoadKind, RunHeader

_LONGEST_RAMP: Final = 0.25
"""The automatic rule never cuts more than this share of a run."""
_FIRST_ARRIVALS: Final = 0.1
_MOST_OF_THEM: Final = 95
_SILENT: Final = 0.1
_SILENT_GAPS: Final = 5
_INSTANT_S: Final = 1e-3


class TrimKind(StrEnum):
    """How one end of a run is cut."""

    AUTO = "auto"
    NONE = "none"
    SECONDS = "seconds"
    REQUESTS = "requests"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Trim:
    """One end's cut; `amount` in the kind's unit (a share of the run's length for SHARE)."""

    kind: TrimKind = TrimKind.AUTO
    amount: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Trim":
        """`auto`, `none`, `10s`, `500ms`, `20%` or `50` (requests). Raises `ConfigurationError`."""
        word = text.strip().lower()
        if word in (TrimKind.AUTO, TrimKind.NONE):
            return cls(TrimKind(word))
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|%|)", word)
        if match is None:
            raise ConfigurationError(
                f"cannot read the trim {text!r}: give auto, none, seconds (10s), a share of the "
                "run (10%) or a number of requests (50)"
            )
        amount, unit = float(match[1]), match[2]
        if unit == "%":
            if amount >= 50:
                raise ConfigurationError(f"a trim of {text} leaves nothing: stay below 50%")
            return cls(TrimKind.SHARE, amount / 100)
        if unit:
            return cls(TrimKind.SECONDS, amount / 1000 if unit == "ms" else amount)
        if amount != int(amount):
            raise ConfigurationError(
                f"{text} requests cannot be cut off: give a whole number, or {text}s"
            )
        return cls(TrimKind.REQUESTS, amount)


@dataclass(frozen=True, slots=True)
class TrimRule:
    """Both ends' cuts.

    `auto`, at the beginning: in open loop and replay until 95 % of the first tenth of the requests
    have ended (by then the server holds what it will hold); in closed loop until every client had
    its first answer (they all start at once, a burst that no steady load has). Never more than a
    quarter of the run. At the end: nothing beyond the moment at which requests stopped starting,
    after which the load only drains; that much `none` cuts too.
    """

    warmup: Trim = field(default_factory=Trim)
    cooldown: Trim = field(default_factory=Trim)


@dataclass(frozen=True, slots=True)
class Window:
    """[from_s, to_s) of a run; what stood before and after it; how it was found, in words."""

    from_s: float
    to_s: float
    before: int
    after: int
    rule: str
    whole: bool = False
    """Nothing would have been left, so nothing was cut."""

    @property
    def length_s(self) -> float:
        """Seconds."""
        return self.to_s - self.from_s

    def holds(self, times_s: FloatArray) -> BoolArray:
        """Which times lie in it; a NaN lies nowhere."""
        return (times_s >= self.from_s) & (times_s < self.to_s)


def steady_window(header: RunHeader, columns: RequestColumns, rule: TrimRule) -> Window:
    """The part of the run that the rule keeps; all of it where the rule would keep no request."""
    start_s = columns.start_s
    if not len(columns):
        return Window(0.0, max(header.duration_s, 0.0), 0, 0, "no requests", whole=True)
    end_s = _run_end(header, columns)
    last_s = _last_start(header, columns, end_s)
    from_s, warmup = _warmup(header, columns, rule.warmup, last_s)
    to_s, cooldown = _cooldown(start_s, rule.cooldown, last_s)
    window = Window(
        from_s,
        to_s,
        int(np.sum(start_s < from_s)),
        int(np.sum(start_s >= to_s)),
        f"{warmup}; {cooldown}",
    )
    if window.length_s > 0 and window.holds(start_s).any():
        return window
    return Window(0.0, end_s, 0, 0, "the whole run: trimming would have left nothing", whole=True)


def _run_end(header: RunHeader, columns: RequestColumns) -> float:
    """When the run ended: as planned, or earlier if it was cut short or had no such time.

    It was cut short when it fell silent long before its time: by a tenth of it and by several times
    what lies between two requests.
    """
    over_s = float(max(columns.gone_s.max(), columns.start_s[-1] + _INSTANT_S))
    if header.duration_s <= 0:
        return over_s
    between_s = float(np.ptp(columns.start_s)) / max(len(columns) - 1, 1)
    silence_s = max(_SILENT * header.duration_s, _SILENT_GAPS * between_s)
    cut_short = len(columns) > 1 and header.duration_s - over_s > silence_s
    return over_s if cut_short else header.duration_s


def _last_start(header: RunHeader, columns: RequestColumns, end_s: float) -> float:
    """When requests stopped starting; a run bounded by their number drains after the last."""
    if end_s == header.duration_s:
        return end_s
    return float(columns.start_s[-1]) + _INSTANT_S


def _warmup(
    header: RunHeader, columns: RequestColumns, trim: Trim, last_s: float
) -> tuple[float, str]:
    match trim.kind:
        case TrimKind.NONE:
            return 0.0, "no warm-up cut"
        case TrimKind.SECONDS:
            return trim.amount, f"first {trim.amount:g} s cut"
        case TrimKind.SHARE:
            return trim.amount * last_s, f"first {trim.amount:.0%} of the run cut"
        case TrimKind.REQUESTS:
            skipped = min(int(trim.amount), len(columns) - 1)
            return float(columns.start_s[skipped]), f"first {skipped} requests cut"
        case TrimKind.AUTO:
            return _ramp_in(header, columns, last_s)


def _ramp_in(header: RunHeader, columns: RequestColumns, last_s: float) -> tuple[float, str]:
    if header.load is LoadKind.CLOSED:
        burst = min(header.concurrency or 1, len(columns))
        filled_s, words = float(columns.gone_s[:burst].max()), "every client had its first answer"
    else:
        first = max(1, int(len(columns) * _FIRST_ARRIVALS))
        filled_s = float(np.percentile(columns.gone_s[:first], _MOST_OF_THEM))
        words = f"{_MOST_OF_THEM}% of the first tenth of the requests had ended"
    longest_s = _LONGEST_RAMP * last_s
    if filled_s > longest_s:
        return longest_s, f"warm-up cut: a quarter of the run, before {words} at {filled_s:.3g} s"
    return filled_s, f"warm-up cut until {words} ({filled_s:.3g} s)"


def _cooldown(start_s: FloatArray, trim: Trim, last_s: float) -> tuple[float, str]:
    match trim.kind:
        case TrimKind.SECONDS:
            return last_s - trim.amount, f"last {trim.amount:g} s cut"
        case TrimKind.SHARE:
            return (1 - trim.amount) * last_s, f"last {trim.amount:.0%} of the run cut"
        case TrimKind.REQUESTS if trim.amount:
            kept = max(len(start_s) - int(trim.amount), 1)
            end_s = float(start_s[kept]) if kept < len(start_s) else last_s
            return end_s, f"last {len(start_s) - kept} requests cut"
        case _:
            return last_s, "drain after the last start cut"
