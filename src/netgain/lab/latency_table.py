"""Latencies as a table: mean and percentiles, then the interval of each."""

from collections.abc import Collection, Mapping
from typing import Final

from netgain.lab.metrics.distribution import PERCENTILES, Distribution
from netgain.lab.metrics.run_metrics import Latency
from netgain.report.document import Basis, Cell, Column, Table

MAIN: Final = (
    Latency.TTFT,
    Latency.ITL,
    Latency.CHUNK_GAP,
    Latency.TPOT,
    Latency.E2E,
    Latency.NORMALISED,
)
"""What users feel; the others are other forms of these."""

LABELS: Final = {
    Latency.TTFT: "TTFT",
    Latency.TTFT_FROM_SENT: "TTFT from the send",
    Latency.TTFO: "TTFO",
    Latency.ITL: "ITL",
    Latency.ITL_PER_REQUEST: "ITL, request means",
    Latency.CHUNK_GAP: "chunk gap",
    Latency.TPOT: "TPOT",
    Latency.TPOT_BY_TOKENS: "TPOT by tokens",
    Latency.E2E: "E2E",
    Latency.E2E_FROM_SENT: "E2E from the send",
    Latency.NORMALISED: "E2E/n",
    Latency.NORMALISED_BY_TOKENS: "E2E/n by tokens",
    Latency.CLIENT_QUEUEING: "client queueing",
}
DEFINITIONS: Final = (
    "TTFT: to the first token, reasoning included. E2E: to the last. TPOT = (last - first) / "
    "(n - 1), none for one token. ITL: an event of k tokens after a gap g gives k times g / k; "
    "chunk gaps are between events. E2E/n: E2E by output tokens.",
    "The columns of 95 % are confidence intervals from blocks in time; where the sample gives no "
    "upper bound only the lower one stands.",
)
OTHER_DEFINITIONS: Final = (
    "TTFO: to the first token that is not reasoning. By tokens: every request counts as often as "
    "it has tokens (TPOT: gaps). Client queueing: sent less intended.",
)


def latency_table(
    name: str,
    title: str,
    latency: Mapping[Latency, Distribution],
    which: Collection[Latency] = tuple(Latency),
) -> Table:
    """Those of `which` that exist; a bound that the sample cannot give is None."""
    rows = tuple(_row(kind, found) for kind, found in latency.items() if kind in which)
    return Table(name, title, _COLUMNS, rows)


def _row(kind: Latency, found: Distribution) -> Mapping[str, Cell]:
    row: dict[str, Cell] = {"latency": LABELS[kind], "key": kind.value, "n": found.n}
    row |= {"min_s": found.minimum, "max_s": found.maximum}
    estimates = {"mean": found.mean, **{f"p{p}": found.percentiles[p] for p in PERCENTILES}}
    for statistic, estimate in estimates.items():
        row[f"{statistic}_s"] = estimate.value
        row[f"{statistic}_low_s"], row[f"{statistic}_high_s"] = estimate.low, estimate.high
    return row


_STATISTICS: Final = ("mean", *(f"p{p}" for p in PERCENTILES))
_COLUMNS: Final = (
    Column("latency", ""),
    Column("n", "n"),
    *(Column(f"{s}_s", s, "s", Basis.MEASURED) for s in _STATISTICS),
    Column("max_s", "max", "s", Basis.MEASURED),
    *(
        Column(
            f"{s}_interval",
            f"{s}, 95 %",
            "s",
            Basis.MEASURED,
            bounds=(f"{s}_low_s", f"{s}_high_s"),
        )
        for s in _STATISTICS
    ),
)
