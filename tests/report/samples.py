"""A report with every part and hostile words in each."""

import math

from netgain.report.document import (
    Axis,
    Basis,
    Chart,
    Column,
    Figure,
    Mark,
    Report,
    Section,
    Series,
    Table,
)

HOSTILE = '</script><script>console.error("injected")</script><img src=x onerror=alert(1)>&amp;'

KV_FIGURE = Figure(
    name="kv_bytes",
    label="KV cache",
    value=34359738368,
    unit="bytes",
    basis=Basis.EXACT,
    arithmetic="2 x 32 layers x 32 heads x 128 x 2 bytes x 4096 tokens x 16 = 34,359,738,368 bytes",
    source="SPEC 3",
)
TTFT_FIGURE = Figure("ttft_p50_s", "TTFT p50", 0.012345, "s", Basis.MEASURED, source="31 requests")

LATENCIES = Table(
    name="latencies",
    title="Latencies",
    columns=(
        Column("metric", "Metric"),
        Column("p50_s", "p50", "s", Basis.MEASURED),
        Column("p99_s", "p99", "s", Basis.MEASURED),
        Column("n", "n"),
    ),
    rows=(
        {"metric": "TTFT", "p50_s": 0.0123, "p99_s": 1.5, "n": 1234},
        {"metric": "TPOT", "p50_s": math.nan, "n": 3},
    ),
)

CURVE = Chart(
    name="curve",
    title="Latency over rate",
    x=Axis("request rate", "requests/s", log=True),
    y=Axis("TTFT", "s"),
    series=(
        Series("p50", (1.0, 10.0, 100.0), (0.01, 0.02, 0.3), texts=("a", "b<c>", "d")),
        Series("p99", (1.0, 10.0, 100.0), (0.02, 0.05, math.inf), Mark.POINTS),
    ),
)
CDF = Chart(
    name="cdf",
    title="TTFT",
    x=Axis("TTFT", "s"),
    y=Axis("share", "fraction"),
    series=(Series("TTFT", (0.001, 0.002, 0.004), (0.1, 0.5, 1.0), Mark.STEPS),),
)
BARS = Chart(
    name="memory",
    title="Memory",
    x=Axis("part"),
    y=Axis("memory", "bytes"),
    series=(
        Series("GPU 0", ("weights", "KV cache"), (13_476_000_000, 34_359_738_368), Mark.BARS),
        Series("GPU 1", ("weights", "KV cache"), (13_476_000_000, 17_179_869_184), Mark.BARS),
    ),
)
TIMELINE = Chart(
    name="timeline",
    title="Requests",
    x=Axis("time", "s"),
    y=Axis("request"),
    series=(
        Series("queue", (0.0, 0.1), (0, 1), Mark.SPANS, x_end=(0.2, 0.3)),
        Series("decode", (0.2, 0.3), (0, 1), Mark.SPANS, x_end=(1.2, 1.4)),
    ),
)

FULL = Report(
    title=f"A run {HOSTILE}",
    verdict=("It fits: 12 GiB are left.",),
    warnings=("The generator lagged.", HOSTILE),
    context={"model": "smollm2", "seed": 7, HOSTILE: HOSTILE},
    sections=(
        Section(
            heading="Memory",
            text=("What the cache holds.", HOSTILE),
            figures=(
                KV_FIGURE,
                Figure("hostile", HOSTILE, HOSTILE, "", Basis.ASSUMED, HOSTILE, HOSTILE),
            ),
            charts=(BARS,),
        ),
        Section(
            heading="Latency",
            figures=(TTFT_FIGURE,),
            tables=(
                LATENCIES,
                Table("hostile", HOSTILE, (Column("a", HOSTILE),), ({"a": HOSTILE},)),
            ),
            charts=(CURVE, CDF, TIMELINE),
        ),
    ),
)
