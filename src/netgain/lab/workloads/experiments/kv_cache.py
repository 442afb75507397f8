"""What the prefix cache saves and costs: five scenarios (`netgain bench kv`).

Cache off; on and cold; on and warm, from the device, DRAM and disk; mixed prefixes with few hits;
a device cache too small for what is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from netgain.lab.run_header import CacheState, LoadKind
from netgain.lab.workloads.distribution import Fixed
from netgain.lab.workloads.experiments.arm_statistics import (
    Ratio,
    answered,
    hits_of,
    median_ratio,
    percentile,
    stage_seconds,
    ttft_s,
)
from netgain.lab.workloads.experiments.plan import NO_TIER, Arm, ArmLoad, ArmResult, Experiment
from netgain.lab.workloads.shared_prefix import SharedPrefix
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

OFF: Final = "off"
COLD: Final = "cold"
WARM: Final = "warm-device"
WARM_DRAM: Final = "warm-dram"
WARM_DISK: Final = "warm-disk"
MIXED: Final = "mixed"
SATURATED: Final = "saturated"
SATURATED_LOAD: Final = "saturated-load"
_NO_TIERS: Final = (
    f"Bytes and seconds per tier, stores, promotions and prefetches: not available, {NO_TIER}."
)
_MIXED_SHARE: Final = 0.25
_OVERFULL: Final = 2
_MOST_PREFIXES: Final = 400


@dataclass(frozen=True, slots=True)
class KVSettings:
    """Sizes of the experiment, in tokens and requests.

    `capacity_tokens` is what the server's KV pool holds, where it is known; `saturated_flags` start
    a netgain server whose pool holds that. Requests are sent by `concurrency` clients at once: 1
    keeps queueing out of TTFT.
    """

    prefix_tokens: int = 1024
    suffix_tokens: int = 64
    answer_tokens: int = 16
    requests: int = 30
    concurrency: int = 1
    capacity_tokens: int | None = None
    saturated_flags: tuple[str, ...] = ()


def kv_experiment(settings: KVSettings) -> Experiment:
    """The plan. Arms off, cold and warm send the same prompts, so their answers must be equal."""
    count = settings.requests
    once = _prefixes(settings, count, questions=1)
    warm_up = _prefixes(settings, count, questions=0)
    load = ArmLoad(LoadKind.CLOSED, count, concurrency=settings.concurrency)

    cold = Arm(COLD, "cache on, cold", once, load, CacheState.COLD, prompts="once")
    off = replace(
        cold,
        name=OFF,
        title="cache off",
        cache=CacheState.UNDECLARED,
        server_flags=("--no-prefix-cache",),
    )
    warm = replace(
        cold,
        name=WARM,
        title="cache on, warm in device memory",
        cache=CacheState.WARM,
        warm_up=warm_up,
        warm_up_conversations=count,
    )
    dram = replace(warm, name=WARM_DRAM, title="cache on, warm in DRAM", unavailable=NO_TIER)
    disk = replace(warm, name=WARM_DISK, title="cache on, warm on disk", unavailable=NO_TIER)
    saturated = _saturated(settings)
    from_below = replace(
        saturated,
        name=SATURATED_LOAD,
        title="device cache saturated, loaded from below",
        unavailable=NO_TIER,
    )
    return Experiment(
        "kv",
        "What the prefix cache saves and costs",
        (
            f"{count} prompts, each of a prefix of {settings.prefix_tokens:,} tokens that no other "
            f"shares and {settings.suffix_tokens:,} tokens of its own; answers of "
            f"{settings.answer_tokens:,} tokens; {settings.concurrency} at once.",
            "Warm arms ask about prefixes that were sent before with other questions.",
        ),
        (
            off,
            cold,
            warm,
            dram,
            disk,
            Arm(
                MIXED,
                "mixed prefixes, few hits",
                SharedPrefix(
                    prefixes=max(2, count // 8),
                    prefix=settings.prefix_tokens,
                    share=_MIXED_SHARE,
                    suffix=Fixed(settings.suffix_tokens),
                    answer=Fixed(settings.answer_tokens),
                ),
                load,
                cache=CacheState.COLD,
                prompts="mixed",
            ),
            saturated,
            from_below,
        ),
    )


def _prefixes(settings: KVSettings, count: int, questions: int) -> SharedPrefix:
    return SharedPrefix(
        prefixes=count,
        prefix=settings.prefix_tokens,
        round=True,
        suffix=Fixed(settings.suffix_tokens),
        answer=Fixed(settings.answer_tokens),
        questions=questions,
    )


def _saturated(settings: KVSettings) -> Arm:
    """Prefixes that take twice the pool, in turn: the oldest is gone before it comes again."""
    each = settings.prefix_tokens + settings.suffix_tokens
    capacity = settings.capacity_tokens
    needed = settings.requests if capacity is None else _OVERFULL * -(-capacity // each)
    count = max(needed, 2)
    unavailable = ""
    if capacity is None:
        unavailable = "the size of the server's KV pool is not known"
    elif count > _MOST_PREFIXES:
        unavailable = (
            f"the pool holds {capacity:,} tokens: {count:,} prefixes would be needed to overfill "
            "it; give the server a smaller pool (--kv-memory) or longer prefixes"
        )
    return Arm(
        SATURATED,
        "device cache saturated, recomputed",
        _prefixes(settings, count, questions=1),
        ArmLoad(LoadKind.CLOSED, count, concurrency=settings.concurrency),
        warm_up=_prefixes(settings, count, questions=0),
        warm_up_conversations=count,
        prompts="saturated",
        server_flags=settings.saturated_flags,
        unavailable=unavailable,
    )


def kv_report(
    experiment: Experiment, results: Sequence[ArmResult], context: Mapping[str, Cell]
) -> Report:
    """What came out; arms without a result are listed with the reason."""
    by_name = {result.arm.name: result for result in results}
    times = {
        name: [ttft_s(record) for record in answered(result.records)]
        for name, result in by_name.items()
    }
    comparisons = _comparisons(times)
    return Report(
        experiment.title,
        (
            Section("Arms", experiment.about, tables=(_arms_table(results, times),)),
            Section(
                "Found and computed",
                ("Tokens; a hit is what the server found in its cache.", _NO_TIERS),
                tables=(_hits_table(results), _server_table(results)),
            ),
            Section(
                "What it saved, what it cost",
                figures=tuple(figure for _, figures in comparisons for figure in figures)
                + _quality(by_name),
            ),
            _stages(results),
            Section("Time to first token", charts=_charts(results, times)),
            Section("Not available", tables=(_missing_table(experiment, by_name),)),
        ),
        verdict=tuple(text for text, _ in comparisons)
        or ("No comparison: run at least two of the arms off, cold and warm.",),
        warnings=_warnings(results),
        context=context,
    )


_ARM_COLUMNS: Final = (
    Column("arm", "arm"),
    Column("requests", "requests", basis=Basis.MEASURED),
    Column("errors", "errors", basis=Basis.MEASURED),
    Column("ttft_p50_s", "TTFT p50", "s", Basis.MEASURED),
    Column("ttft_p95_s", "TTFT p95", "s", Basis.MEASURED),
    Column("ttft_p99_s", "TTFT p99", "s", Basis.MEASURED),
)
_HIT_COLUMNS: Final = (
    Column("arm", "arm"),
    Column("request_hit_rate", "request hits", "fraction", Basis.MEASURED),
    Column("token_hit_rate", "token hits", "fraction", Basis.MEASURED),
    Column("hit_tokens", "tokens found", basis=Basis.MEASURED),
    Column("hit_length_p50", "hit length p50", basis=Basis.MEASURED),
    Column("full_prefill_tokens", "full prefill", basis=Basis.MEASURED),
    Column("suffix_prefill_tokens", "suffix prefill", basis=Basis.MEASURED),
)
_SERVER_COLUMNS: Final = (
    Column("arm", "arm"),
    Column("prefill_tokens", "tokens prefilled", basis=Basis.MEASURED),
    Column("recomputed_tokens", "recomputed after a preemption", basis=Basis.MEASURED),
    Column("evicted_blocks", "blocks evicted", basis=Basis.MEASURED),
)


def _arms_table(results: Sequence[ArmResult], times: Mapping[str, Sequence[float]]) -> Table:
    rows: list[Mapping[str, Cell]] = []
    for result in results:
        ttft = times[result.arm.name]
        rows.append(
            {
                "arm": result.arm.title,
                "requests": len(result.records),
                "errors": len(result.records) - len(ttft),
                "ttft_p50_s": percentile(ttft, 50),
                "ttft_p95_s": percentile(ttft, 95),
                "ttft_p99_s": percentile(ttft, 99),
            }
        )
    return Table("kv_arms", "Time to first token by arm", _ARM_COLUMNS, tuple(rows))


def _hits_table(results: Sequence[ArmResult]) -> Table:
    """What was found and what was computed, as the server's usage says of each request."""
    rows: list[Mapping[str, Cell]] = []
    for result in results:
        row: dict[str, Cell] = {"arm": result.arm.title}
        hits = hits_of(result.records)
        if hits is not None:
            row |= {
                "full_prefill_tokens": hits.full_prefill_tokens,
                "suffix_prefill_tokens": hits.suffix_prefill_tokens,
                "request_hit_rate": hits.request_rate,
                "token_hit_rate": hits.token_rate,
                "hit_tokens": hits.token_hits,
                "hit_length_p50": percentile(hits.lengths, 50),
            }
        rows.append(row)
    return Table("kv_hits", "Prompt tokens found and computed", _HIT_COLUMNS, tuple(rows))


def _server_table(results: Sequence[ArmResult]) -> Table:
    """The server's own counters over the arm, without its warm-up."""
    rows: list[Mapping[str, Cell]] = []
    for result in results:
        row: dict[str, Cell] = {"arm": result.arm.title}
        if result.counted is not None:
            row |= {
                "prefill_tokens": result.counted.prefill_tokens,
                "evicted_blocks": result.counted.evicted_blocks,
                "recomputed_tokens": result.counted.recomputed_tokens,
            }
        rows.append(row)
    return Table("kv_server", "The server's own counters", _SERVER_COLUMNS, tuple(rows))


def _stages(results: Sequence[ArmResult]) -> Section:
    """Mean seconds a request in each ledger stage, where the server gave its ledger."""
    means = {result.arm.title: stage_seconds(result.records) for result in results}
    if not any(means.values()):
        return Section(
            "Where the time went", ("By stage: not available, the server offered no ledger.",)
        )
    stages = list(dict.fromkeys(stage for mean in means.values() for stage in mean))
    columns = (
        Column("arm", "arm"),
        *(Column(f"{stage}_s", stage, "s", Basis.MEASURED) for stage in stages),
    )
    rows: tuple[Mapping[str, Cell], ...] = tuple(
        {"arm": arm, **{f"{stage}_s": seconds for stage, seconds in mean.items()}}
        for arm, mean in means.items()
        if mean
    )
    table = Table("kv_stages", "Mean time of a request by ledger stage", columns, rows)
    return Section("Where the time went", tables=(table,))


_COMPARED: Final = (
    (WARM, OFF, "a warm cache", "no cache"),
    (WARM, COLD, "a warm cache", "a cold one"),
    (COLD, OFF, "a cold cache", "no cache"),
    (SATURATED, WARM, "a saturated cache", "a warm one"),
)


def _comparisons(
    times: Mapping[str, Sequence[float]],
) -> list[tuple[str, tuple[Figure, ...]]]:
    found: list[tuple[str, tuple[Figure, ...]]] = []
    for name, other, what, against in _COMPARED:
        ratio = median_ratio(times.get(name, ()), times.get(other, ()))
        if ratio is None:
            continue
        text = (
            f"With {what} the median TTFT is {ratio.value:.2f} x that with {against} "
            f"(95 % interval {ratio.low:.2f} to {ratio.high:.2f}, n {len(times[name])} and "
            f"{len(times[other])}): {_judged(ratio)}."
        )
        figure = Figure(
            f"ttft_ratio_{name}_{other}".replace("-", "_"),
            f"TTFT {name} / {other}",
            ratio.value,
            "ratio",
            Basis.MEASURED,
            arithmetic=f"median of {len(times[name])} / median of {len(times[other])}",
            interval=Interval(ratio.low, ratio.high),
        )
        found.append((text, (figure,)))
    return found


def _judged(ratio: Ratio) -> str:
    if ratio.high < 1:
        return "faster"
    if ratio.low > 1:
        return "slower"
    return "no difference that this run can show"


def _quality(by_name: Mapping[str, ArmResult]) -> tuple[Figure, ...]:
    """Answers to equal prompts must be equal, whatever the cache did."""
    base = next((by_name[name] for name in (OFF, COLD) if name in by_name), None)
    if base is None:
        return ()
    expected = {(record.conversation, record.turn): record.text for record in base.records}
    figures = []
    for name, result in by_name.items():
        same_prompts = (result.arm.prompts, result.nonce) == (base.arm.prompts, base.nonce)
        if result.arm.name == base.arm.name or not same_prompts:
            continue
        pairs = [
            (record.text, expected.get((record.conversation, record.turn)))
            for record in answered(result.records)
        ]
        known = [(text, other) for text, other in pairs if text is not None and other is not None]
        if known:
            same = sum(text == other for text, other in known)
            figures.append(
                Figure(
                    f"equal_answers_{name}".replace("-", "_"),
                    f"answers of {name} equal to those of {base.arm.name}",
                    same / len(known),
                    "fraction",
                    Basis.MEASURED,
                    arithmetic=f"{same} of {len(known)}",
                )
            )
    return tuple(figures)


def _charts(
    results: Sequence[ArmResult], times: Mapping[str, Sequence[float]]
) -> tuple[Chart, ...]:
    series = []
    for result in results:
        ordered = sorted(times[result.arm.name])
        if ordered:
            shares = [(rank + 1) / len(ordered) for rank in range(len(ordered))]
            series.append(Series(result.arm.title, ordered, shares, Mark.STEPS))
    lengths = []
    for result in results:
        hits = hits_of(result.records)
        if hits is not None and hits.lengths:
            ordered_lengths = sorted(hits.lengths)
            shares = [(rank + 1) / len(ordered_lengths) for rank in range(len(ordered_lengths))]
            lengths.append(Series(result.arm.title, ordered_lengths, shares, Mark.STEPS))
    charts = [
        Chart(
            "kv_ttft_cdf",
            "Time to first token",
            Axis("TTFT", "s"),
            Axis("share of requests", "fraction"),
            tuple(series),
        )
    ]
    if lengths:
        charts.append(
            Chart(
                "kv_hit_lengths",
                "Length of hits",
                Axis("tokens found", "tokens"),
                Axis("share of requests with a hit", "fraction"),
                tuple(lengths),
            )
        )
    return tuple(charts)


def _missing_table(experiment: Experiment, by_name: Mapping[str, ArmResult]) -> Table:
    rows = tuple(
        {"arm": arm.title, "reason": arm.unavailable or "was not run"}
        for arm in experiment.arms
        if arm.name not in by_name
    )
    return Table(
        "kv_not_available",
        "Arms that were not run",
        (Column("arm", "arm"), Column("reason", "why")),
        rows,
    )


def _warnings(results: Sequence[ArmResult]) -> tuple[str, ...]:
    found = []
    for result in results:
        if result.cache is not None and result.cache.held is False:
            found.append(f"{result.arm.title}: {result.cache.text}")
        found += [f"{result.arm.title}: {note}" for note in result.notes]
        if result.records and hits_of(result.records) is None:
            found.append(
                f"{result.arm.title}: the server does not say in `usage` how much it found cached"
            )
    return tuple(found)
