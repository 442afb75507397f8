"""What long prompts do to everybody else (`netgain bench ttft`).

Steady decoders and short requests come at the same rates in every arm; long prompts come on top, in
growing shares. In one pool their prefills share steps with the decoders.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from netgain.lab.record import RequestRecord
from netgain.lab.run_header import LoadKind
from netgain.lab.workloads.distribution import Fixed
from netgain.lab.workloads.experiments.arm_statistics import (
    Ratio,
    answered,
    interference_s,
    percentile,
    percentile_ratio,
    ttft_s,
)
from netgain.lab.workloads.experiments.plan import NO_POOLS, Arm, ArmLoad, ArmResult, Experiment
from netgain.lab.workloads.lengths_only import LengthsOnly
from netgain.lab.workloads.mix import Mix, MixPart
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Figure,
    Interval,
    Mark,
    Report,
    Section,
    Series,
    Table,
)

_SEPARATE: Final = {
    "1p-3d": "1 prefill to 3 decode",
    "2p-2d": "2 prefill to 2 decode",
    "3p-1d": "3 prefill to 1 decode",
    "across-nodes": "across nodes",
}
"""Arms at as many devices as the one pool has; prefill and decode apart."""

DECODER: Final = "decoder"
SHORT: Final = "short"
LONG: Final = "long"


@dataclass(frozen=True, slots=True)
class InterferenceSettings:
    """Sizes in tokens; rates in requests/s.

    `decoder_rate` x the time one takes is how many decode at once. `shares` are those of the long
    prompts among all requests, below 1, the first of them 0.
    """

    decoder_rate: float = 0.5
    decoder_prompt: int = 64
    decoder_answer: int = 256
    short_rate: float = 1.0
    short_prompt: int = 64
    short_answer: int = 8
    long_prompt: int = 2048
    long_answer: int = 4
    shares: tuple[float, ...] = (0.0, 0.1, 0.25, 0.4)
    duration_s: float = 60.0


def interference_experiment(settings: InterferenceSettings) -> Experiment:
    """The plan: one arm a share."""
    arms = tuple(_arm(settings, share) for share in settings.shares)
    separate = tuple(
        replace(arms[-1], name=name, title=f"separate pools, {title}", unavailable=NO_POOLS)
        for name, title in _SEPARATE.items()
    )
    return Experiment(
        "ttft",
        "What long prompts do to everybody else",
        (
            f"Decoders ({settings.decoder_prompt:,} tokens in, {settings.decoder_answer:,} out) at "
            f"{settings.decoder_rate:g}/s and short requests ({settings.short_prompt:,} in, "
            f"{settings.short_answer:,} out) at {settings.short_rate:g}/s in every arm; prompts of "
            f"{settings.long_prompt:,} tokens on top. Poisson arrivals, {settings.duration_s:g} s.",
        ),
        (*arms, *separate),
    )


def _arm(settings: InterferenceSettings, share: float) -> Arm:
    steady = settings.decoder_rate + settings.short_rate
    long_rate = steady * share / (1 - share)
    rate = steady + long_rate
    parts = (
        MixPart(
            DECODER,
            LengthsOnly(
                prompt=Fixed(settings.decoder_prompt), answer=Fixed(settings.decoder_answer)
            ),
            settings.decoder_rate,
        ),
        MixPart(
            SHORT,
            LengthsOnly(prompt=Fixed(settings.short_prompt), answer=Fixed(settings.short_answer)),
            settings.short_rate,
        ),
        MixPart(
            LONG,
            LengthsOnly(prompt=Fixed(settings.long_prompt), answer=Fixed(settings.long_answer)),
            long_rate,
        ),
    )
    return Arm(
        f"long-{share:g}",
        f"{share:.0%} long prompts",
        Mix(parts),
        ArmLoad(LoadKind.OPEN, max(1, round(rate * settings.duration_s)), rate=rate),
    )


@dataclass(frozen=True, slots=True)
class TokenGaps:
    """Gaps between tokens of decoders, in seconds, one a token.

    `beside` ended or began while some long prompt was waiting or being prefilled, `apart` did not.
    """

    beside: tuple[float, ...]
    apart: tuple[float, ...]

    @property
    def all(self) -> tuple[float, ...]:
        """Both."""
        return self.beside + self.apart


def token_gaps(records: Sequence[RequestRecord]) -> TokenGaps:
    """Of all answered decoders. An event of k tokens gives k gaps, each a k-th of its gap."""
    spans = _merged(
        (record.sent_s, record.first_token_s)
        for record in records
        if record.request_class == LONG
        and record.sent_s is not None
        and record.first_token_s is not None
    )
    starts = [start for start, _ in spans]
    beside: list[float] = []
    apart: list[float] = []
    for record in answered(records, DECODER):
        for event, following in zip(record.events, record.events[1:], strict=False):
            if following.tokens < 1:
                continue
            gap = (following.at_s - event.at_s) / following.tokens
            before = bisect_right(starts, following.at_s) - 1
            overlaps = before >= 0 and spans[before][1] > event.at_s
            (beside if overlaps else apart).extend([gap] * following.tokens)
    return TokenGaps(tuple(beside), tuple(apart))


def _gaps_of(decoder: RequestRecord) -> list[float]:
    """One a token."""
    gaps: list[float] = []
    for event, following in pairwise(decoder.events):
        if following.tokens:
            gap = (following.at_s - event.at_s) / following.tokens
            gaps.extend([gap] * following.tokens)
    return gaps


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spans without overlap, in order."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


@dataclass(frozen=True, slots=True)
class _ArmFigures:
    """What one arm's row shows."""

    result: ArmResult
    gaps: TokenGaps
    gaps_by_request: list[list[float]]
    short_ttft: list[float]
    long_ttft: list[float]

    @classmethod
    def of(cls, result: ArmResult) -> "_ArmFigures":
        return cls(
            result,
            token_gaps(result.records),
            [_gaps_of(record) for record in answered(result.records, DECODER)],
            [ttft_s(record) for record in answered(result.records, SHORT)],
            [ttft_s(record) for record in answered(result.records, LONG)],
        )

    @property
    def share(self) -> float:
        """Of the requests really sent, those with a long prompt."""
        records = self.result.records
        return sum(record.request_class == LONG for record in records) / max(1, len(records))


def interference_report(
    experiment: Experiment, results: Sequence[ArmResult], context: Mapping[str, Cell]
) -> Report:
    """What came out; arms without a result are listed with the reason."""
    arms = [_ArmFigures.of(result) for result in results]
    found = _comparisons(arms)
    ran = {result.arm.name for result in results}
    missing = tuple(
        {"arm": arm.title, "reason": arm.unavailable or "was not run"}
        for arm in experiment.arms
        if arm.name not in ran
    )
    return Report(
        experiment.title,
        (
            Section("Arms", experiment.about, tables=(_table(arms), _decoders_table(arms))),
            Section(
                "Against no long prompts",
                figures=tuple(figure for one in found for figure in one.figures()),
            ),
            Section(
                "Beside a long prompt and apart from one",
                (
                    "The same decoders in the same arm: gaps between tokens while some long prompt "
                    "waited or was prefilled, and all others.",
                ),
                tables=(_beside_table(arms),),
            ),
            Section("By share of long prompts", charts=_charts(arms)),
            Section(
                "Not available",
                tables=(
                    Table(
                        "interference_not_available",
                        "Arms that were not run",
                        (Column("arm", "arm"), Column("reason", "why")),
                        missing,
                    ),
                ),
            ),
        ),
        verdict=_verdict(arms, found),
        warnings=tuple(
            f"{result.arm.title}: {note}" for result in results for note in result.notes
        ),
        context=context,
    )


_COLUMNS: Final = (
    Column("arm", "arm"),
    Column("long_share", "long prompts sent", "fraction", Basis.MEASURED),
    Column("requests", "requests", basis=Basis.MEASURED),
    Column("errors", "errors", basis=Basis.MEASURED),
    Column("short_ttft_p50_s", "short TTFT p50", "s", Basis.MEASURED),
    Column("short_ttft_p95_s", "short TTFT p95", "s", Basis.MEASURED),
    Column("short_ttft_p99_s", "short TTFT p99", "s", Basis.MEASURED),
    Column("long_ttft_p50_s", "long TTFT p50", "s", Basis.MEASURED),
)
_DECODER_COLUMNS: Final = (
    Column("arm", "arm"),
    Column("tokens", "token gaps", basis=Basis.MEASURED),
    Column("itl_p50_s", "ITL p50", "s", Basis.MEASURED),
    Column("itl_p95_s", "ITL p95", "s", Basis.MEASURED),
    Column("itl_p99_s", "ITL p99", "s", Basis.MEASURED),
    Column("itl_max_s", "ITL max", "s", Basis.MEASURED),
    Column("interference_s", "lost to prefills, a decoder", "s", Basis.CALIBRATED),
)


def _table(arms: Sequence[_ArmFigures]) -> Table:
    rows = tuple(
        {
            "arm": arm.result.arm.title,
            "long_share": arm.share,
            "requests": len(arm.result.records),
            "errors": sum(record.failure is not None for record in arm.result.records),
            "short_ttft_p50_s": percentile(arm.short_ttft, 50),
            "short_ttft_p95_s": percentile(arm.short_ttft, 95),
            "short_ttft_p99_s": percentile(arm.short_ttft, 99),
            "long_ttft_p50_s": percentile(arm.long_ttft, 50),
        }
        for arm in arms
    )
    return Table("interference_arms", "Time to first token by arm", _COLUMNS, rows)


def _decoders_table(arms: Sequence[_ArmFigures]) -> Table:
    rows = tuple(
        {
            "arm": arm.result.arm.title,
            "tokens": len(arm.gaps.all),
            "itl_p50_s": percentile(arm.gaps.all, 50),
            "itl_p95_s": percentile(arm.gaps.all, 95),
            "itl_p99_s": percentile(arm.gaps.all, 99),
            "itl_max_s": percentile(arm.gaps.all, 100),
            "interference_s": interference_s(answered(arm.result.records, DECODER)),
        }
        for arm in arms
    )
    return Table("interference_decoders", "Decoders' gaps between tokens", _DECODER_COLUMNS, rows)


def _beside_table(arms: Sequence[_ArmFigures]) -> Table:
    columns = (
        Column("arm", "arm"),
        Column("beside_gaps", "gaps beside", basis=Basis.MEASURED),
        Column("beside_p50_s", "ITL p50 beside", "s", Basis.MEASURED),
        Column("beside_p99_s", "p99 beside", "s", Basis.MEASURED),
        Column("apart_gaps", "gaps apart", basis=Basis.MEASURED),
        Column("apart_p50_s", "ITL p50 apart", "s", Basis.MEASURED),
        Column("apart_p99_s", "p99 apart", "s", Basis.MEASURED),
    )
    rows = tuple(
        {
            "arm": arm.result.arm.title,
            "beside_gaps": len(arm.gaps.beside),
            "beside_p50_s": percentile(arm.gaps.beside, 50),
            "beside_p99_s": percentile(arm.gaps.beside, 99),
            "apart_gaps": len(arm.gaps.apart),
            "apart_p50_s": percentile(arm.gaps.apart, 50),
            "apart_p99_s": percentile(arm.gaps.apart, 99),
        }
        for arm in arms
    )
    return Table("interference_beside", "Gaps beside long prompts and apart", columns, rows)


def _charts(arms: Sequence[_ArmFigures]) -> tuple[Chart, ...]:
    def lines(values: Mapping[str, list[float | None]]) -> tuple[Series, ...]:
        series = []
        for name, points in values.items():
            known = [
                (arm.share, point)
                for arm, point in zip(arms, points, strict=True)
                if point is not None
            ]
            x, y = [share for share, _ in known], [point for _, point in known]
            series.append(Series(name, x, y, Mark.LINE))
        return tuple(series)

    share = Axis("share of long prompts", "fraction")
    return (
        Chart(
            "interference_itl",
            "Decoders' gaps between tokens",
            share,
            Axis("ITL", "s"),
            lines({f"p{q}": [percentile(arm.gaps.all, q) for arm in arms] for q in (50, 95, 99)}),
        ),
        Chart(
            "interference_ttft",
            "Short requests' time to first token",
            share,
            Axis("TTFT", "s"),
            lines({f"p{q}": [percentile(arm.short_ttft, q) for arm in arms] for q in (50, 95, 99)}),
        ),
    )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """An arm against the one without long prompts; None where there is nothing to compare."""

    arm: _ArmFigures
    itl: Ratio | None
    ttft: Ratio | None

    def sentence(self) -> str:
        return (
            f"{self.arm.result.arm.title}: the decoders' ITL p99 is {_times(self.itl)} and the "
            f"short requests' TTFT p95 {_times(self.ttft)} that without long prompts."
        )

    def figures(self) -> list[Figure]:
        name, title = self.arm.result.arm.name, self.arm.result.arm.title
        key = name.replace("-", "_").replace(".", "_")
        return [
            Figure(
                f"{latency}_ratio_{key}",
                f"{label}, {title} / none",
                ratio.value,
                "ratio",
                Basis.MEASURED,
                interval=Interval(ratio.low, ratio.high),
            )
            for latency, label, ratio in (
                ("itl_p99", "ITL p99", self.itl),
                ("ttft_p95", "short TTFT p95", self.ttft),
            )
            if ratio is not None
        ]


def _comparisons(arms: Sequence[_ArmFigures]) -> list[_Comparison]:
    without = next((arm for arm in arms if not arm.long_ttft), None)
    if without is None:
        return []
    return [
        _Comparison(
            arm,
            percentile_ratio(arm.gaps_by_request, without.gaps_by_request, 99),
            percentile_ratio(_each(arm.short_ttft), _each(without.short_ttft), 95),
        )
        for arm in arms
        if arm is not without
    ]


def _each(values: Sequence[float]) -> list[tuple[float]]:
    return [(value,) for value in values]


def _verdict(arms: Sequence[_ArmFigures], found: Sequence[_Comparison]) -> tuple[str, ...]:
    if all(arm.long_ttft for arm in arms):
        return ("No comparison: the arm without long prompts gave no result.",)
    if not found:
        return ("No comparison: only the arm without long prompts was run.",)
    return tuple(comparison.sentence() for comparison in found)


def _times(ratio: Ratio | None) -> str:
    if ratio is None:
        return "unknown beside"
    return f"{ratio.value:.2f} x (95 % interval {ratio.low:.2f} to {ratio.high:.2f})"
