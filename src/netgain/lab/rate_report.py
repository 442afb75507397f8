"""What a search for the highest rate has to say, as a report."""

from netgain.lab.metrics.run_metrics import Latency
from netgain.lab.rate_point import RatePoint
from netgain.lab.rate_search import Outcome, RateAnswer
from netgain.lab.run_header import RunHeader
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Figure,
    Mark,
    Report,
    Section,
    Series,
    Table,
)


def rate_report(answer: RateAnswer, header: RunHeader | None = None) -> Report:
    """The answer, the latency-throughput curve and every rate tried; `header`: any run's."""
    warnings: tuple[str, ...] = ()
    if answer.outcome is not Outcome.FOUND:
        warnings = (f"The search ended without a bracket: {answer.outcome.value}.",)
    context: dict[str, Cell] = {"runs": answer.runs, "load_s": answer.load_s}
    if header is not None:
        context |= {"target": header.target, "model": header.model, "workload": header.workload}
    return Report(
        title="Highest request rate that meets the SLO",
        sections=(
            Section(
                "Rate",
                text=(
                    "A rate meets the SLO when the whole 95 % interval of its attainment does and "
                    "the server keeps up; the answer lies between the two rates.",
                ),
                figures=_figures(answer),
                tables=(_table(answer.curve),),
                charts=_charts(answer.curve),
            ),
        ),
        verdict=(answer.sentence,),
        warnings=warnings,
        context=context,
    )


def _figures(answer: RateAnswer) -> tuple[Figure, ...]:
    return (
        Figure(
            "highest_rate", "highest rate that meets it", answer.rate, "requests/s", Basis.MEASURED
        ),
        Figure(
            "lowest_missing_rate",
            "lowest rate that misses it",
            answer.below,
            "requests/s",
            Basis.MEASURED,
        ),
    )


def _table(curve: tuple[RatePoint, ...]) -> Table:
    columns = (
        Column("rate", "rate", "requests/s"),
        Column("runs", "runs"),
        Column("goodput", "goodput", "requests/s", Basis.MEASURED),
        Column("attainment", "attainment", "fraction", Basis.MEASURED),
        Column("output_tokens_per_s", "output", "tokens/s", Basis.MEASURED),
        Column("ttft_p50_s", "TTFT p50", "s", Basis.MEASURED),
        Column("ttft_p99_s", "TTFT p99", "s", Basis.MEASURED),
        Column("tpot_p50_s", "TPOT p50", "s", Basis.MEASURED),
        Column("tpot_p99_s", "TPOT p99", "s", Basis.MEASURED),
        Column("e2e_p99_s", "E2E p99", "s", Basis.MEASURED),
        Column("verdict", "verdict"),
        Column("reason", "why"),
    )
    rows = tuple(
        {
            "rate": point.rate,
            "runs": len(point.runs),
            "goodput": point.goodput,
            "attainment": point.attainment.value,
            "output_tokens_per_s": point.output_tokens_per_s,
            "ttft_p50_s": point.latency(Latency.TTFT, 50),
            "ttft_p99_s": point.latency(Latency.TTFT, 99),
            "tpot_p50_s": point.latency(Latency.TPOT, 50),
            "tpot_p99_s": point.latency(Latency.TPOT, 99),
            "e2e_p99_s": point.latency(Latency.E2E, 99),
            "verdict": point.verdict.value,
            "reason": point.reason,
        }
        for point in curve
    )
    return Table("rates", "Rates tried", columns, rows)


def _charts(curve: tuple[RatePoint, ...]) -> tuple[Chart, ...]:
    rates = [point.rate for point in curve]
    texts = [point.reason for point in curve]
    goodput = Chart(
        "goodput_curve",
        "Goodput by offered rate",
        Axis("offered", "requests/s"),
        Axis("goodput", "requests/s"),
        (Series("goodput", rates, [p.goodput for p in curve], Mark.LINE, texts=texts),),
    )
    series = []
    for name, label in ((Latency.TTFT, "TTFT"), (Latency.TPOT, "TPOT"), (Latency.E2E, "E2E")):
        for percentile in (50, 99):
            found = [
                (point.output_tokens_per_s, seconds)
                for point in curve
                if (seconds := point.latency(name, percentile)) is not None
            ]
            if found:
                x, y = zip(*found, strict=True)
                series.append(Series(f"{label} p{percentile}", x, y, Mark.LINE))
    latency = Chart(
        "latency_throughput",
        "Latency by throughput, one point a rate",
        Axis("output", "tokens/s"),
        Axis("latency", "s", log=True),
        tuple(series),
    )
    return (goodput, latency) if series else (goodput,)
