"""Where the requests' time went: the ledger's stages, and what lies between server and client."""

from collections.abc import Mapping

from netgain.lab.bench_charts import timeline
from netgain.lab.client_vs_ledger import ClientVsLedger, Remainder, client_vs_ledger
from netgain.lab.metrics.run_metrics import MeasuredRun
from netgain.report.document import Basis, Cell, Column, Figure, Section, Table


def where_time_went(run: MeasuredRun) -> Section | None:
    """By ledger stage; by the client's stages without one. None when nothing was sent."""
    chart = timeline(run)
    compared = client_vs_ledger(run.columns.records)
    if chart is None:
        return None
    charts = (chart,)
    if compared is None:
        return Section(
            "Where the time went",
            text=(
                "By stage: not available, the server offered no ledger. The timeline shows what "
                "the client saw.",
            ),
            charts=charts,
        )
    return Section(
        "Where the time went",
        text=(
            f"Over {compared.n} requests with a ledger, from the send. Network and client is what "
            "the client saw beyond the ledger.",
        ),
        figures=_remainders(compared),
        tables=(_stage_table(compared),),
        charts=charts,
    )


def _remainders(compared: ClientVsLedger) -> tuple[Figure, ...]:
    figures: list[Figure] = []
    for key, label, rest in (("ttft", "TTFT", compared.ttft), ("e2e", "E2E", compared.e2e)):
        if rest is not None:
            figures += _remainder(key, f"network and client, {label}", rest)
    return tuple(figures)


def _remainder(key: str, label: str, rest: Remainder) -> list[Figure]:
    return [
        Figure(
            f"network_and_client_{key}_{name}_s",
            f"{label} {name}",
            value,
            "s",
            Basis.MEASURED,
            f"n = {rest.n}",
        )
        for name, value in (("p50", rest.p50_s), ("p95", rest.p95_s), ("p99", rest.p99_s))
    ]


def _stage_table(compared: ClientVsLedger) -> Table:
    parts = {
        **compared.stage_s,
        "other": compared.other_s,
        "network and client": compared.client_e2e_s - compared.ledger_e2e_s,
    }
    rows: list[Mapping[str, Cell]] = [
        {
            "stage": stage,
            "mean_s": seconds / compared.n,
            "share": seconds / compared.client_e2e_s if compared.client_e2e_s else None,
        }
        for stage, seconds in parts.items()
    ]
    columns = (
        Column("stage", "stage"),
        Column("mean_s", "mean of a request", "s", Basis.MEASURED),
        Column("share", "of E2E", "fraction", Basis.MEASURED),
    )
    return Table("stages", "Client's E2E by stage", columns, tuple(rows))
