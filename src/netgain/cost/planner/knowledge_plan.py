"""`netgain plan knowledge`: RAG, CAG or a hybrid, under a managed API's prices and on own devices.

The two price models stand in two sections and are never added.
"""

from dataclasses import dataclass
from typing import Final

from netgain.cost.bounds import at_least_zero, count, positive
from netgain.cost.knowledge import (
    KnowledgeShape,
    ManagedPrices,
    SelfHostedCosts,
    Way,
    break_even_queries,
    break_even_updates_per_s,
    managed_break_even_price_ratio,
    managed_dollars,
    prefill_ratio,
    queries_per_build,
    token_equivalents,
)
from netgain.cost.planner.setup import Setup
from netgain.cost.step_costs import StepCosts, prefill_s
from netgain.cost.step_work import decode
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Figure,
    Report,
    Section,
    Series,
    Table,
)

_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class KnowledgeQuestion:
    """Sizes, traffic, and both price models.

    `retrieval_s` is device time (of equal price) per retrieval, `retrieval_latency_s` what the
    user waits for it. `batch` sequences decode together. `load_bytes_per_s` brings the corpus's KV
    from a tier, 0: it stays on the device.
    """

    setup: Setup
    shape: KnowledgeShape
    prices: ManagedPrices
    answer_tokens: int = 200
    queries_per_s: float = 1.0
    updates_per_day: float = 1.0
    retrieval_s: float = 0.02
    retrieval_latency_s: float = 0.1
    batch: int = 8
    load_bytes_per_s: float = 0.0
    dollars_per_device_hour: float = 2.0

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty or negative traffic and negative prices."""
        positive("queries_per_s", self.queries_per_s)
        count("answer_tokens", self.answer_tokens)
        count("batch", self.batch)
        for name in (
            "updates_per_day",
            "retrieval_s",
            "retrieval_latency_s",
            "load_bytes_per_s",
            "dollars_per_device_hour",
        ):
            at_least_zero(name, getattr(self, name))  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Case:
    way: Way
    costs: SelfHostedCosts
    ttft_s: float
    kv_bytes: int


def plan_knowledge(question: KnowledgeQuestion) -> Report:
    """Tokens, both price models, break-evens, and when each way loses."""
    q = question
    steps = q.setup.steps()
    cases = {way: _case(q, steps, way) for way in Way}
    rag, cag = cases[Way.RAG], cases[Way.CAG]
    even = break_even_queries(cag.costs.build_s, rag.costs.online_s, cag.costs.online_s)
    cheapest = min(cases.values(), key=lambda case: case.costs.per_query_s)
    managed = {way: managed_dollars(q.prices, q.shape.prompt(way), way) for way in Way}
    cheapest_managed = min(managed, key=lambda way: managed[way])
    verdict = [
        f"On own devices {cheapest.way.value.upper()} takes least: "
        f"{cheapest.costs.per_query_s * 1e3:.4g} device-ms a question.",
        f"At the API's prices {cheapest_managed.value.upper()} is cheapest: "
        f"${managed[cheapest_managed]:.4g} a question.",
    ]
    verdict.append(
        f"CAG needs {even:,.0f} questions per build to beat RAG."
        if even is not None
        else "CAG never beats RAG here: its questions cost more even with the build for nothing."
    )
    return Report(
        title=f"Knowledge for {q.setup.shape.name}: RAG, CAG or a hybrid",
        sections=(
            _tokens(q),
            _own(q, cases, even),
            _managed(q, managed),
            _loses(q, cases, even),
        ),
        verdict=tuple(verdict),
        warnings=_warnings(q, cases),
        context=q.setup.context()
        | {"queries_per_s": q.queries_per_s, "updates_per_day": q.updates_per_day},
    )


def _case(q: KnowledgeQuestion, steps: StepCosts, way: Way) -> _Case:
    prompt = q.shape.prompt(way)
    per_build = queries_per_build(q.queries_per_s, q.updates_per_day / 86_400)
    retrieves = way is not Way.CAG
    builds = 0 if way is Way.RAG else prompt.cached - q.shape.system
    kv = q.setup.kv_bytes(builds) if builds else 0
    room = q.setup.kv_room_bytes(1, builds) if builds else 1
    resident = min(1.0, kv / max(1, room)) if not q.load_bytes_per_s else 0.0
    load = kv / q.load_bytes_per_s if q.load_bytes_per_s else 0.0
    fresh_s = prefill_s(steps, prompt.cached, prompt.fresh)
    step = steps.seconds(decode(q.batch, prompt.context))
    costs = SelfHostedCosts(
        retrieval_s=q.retrieval_s if retrieves else 0.0,
        build_s=prefill_s(steps, q.shape.system, builds) if builds else 0.0,
        queries_per_build=per_build,
        storage_s_per_query=resident / q.queries_per_s,
        transfer_s=load,
        prefill_s=fresh_s,
        decode_extra_s=q.answer_tokens * step / q.batch,
    )
    waited = (q.retrieval_latency_s if retrieves else 0.0) + load + fresh_s
    return _Case(way, costs, waited, kv)


def _tokens(q: KnowledgeQuestion) -> Section:
    rag, cag = q.shape.prompt(Way.RAG), q.shape.prompt(Way.CAG)
    rows: list[dict[str, Cell]] = []
    for way in Way:
        prompt = q.shape.prompt(way)
        rows.append(
            {
                "way": way.value.upper(),
                "cached": prompt.cached,
                "fresh": prompt.fresh,
                "context": prompt.context,
            }
        )
    return Section(
        "Tokens of a question",
        text=("Fewer tokens to prefill is not as much less TTFT.",),
        figures=(
            Figure("prefill_ratio", "RAG's tokens to prefill over CAG's", prefill_ratio(rag, cag),
                   "ratio", Basis.EXACT, f"{rag.fresh:,} / {cag.fresh:,}", "SPEC 13"),
        ),
        tables=(
            Table(
                "tokens",
                "By way",
                (
                    Column("way", "Way"),
                    Column("cached", "Cached", "tokens", Basis.EXACT),
                    Column("fresh", "To prefill", "tokens", Basis.EXACT),
                    Column("context", "Read by each decode step", "tokens", Basis.EXACT),
                ),
                tuple(rows),
            ),
        ),
    )  # fmt: skip


def _own(q: KnowledgeQuestion, cases: dict[Way, _Case], even: float | None) -> Section:
    basis, source = q.setup.basis, q.setup.source
    devices = q.setup.layout.devices
    rows: list[dict[str, Cell]] = []
    for way, case in cases.items():
        c = case.costs
        rows.append(
            {
                "way": way.value.upper(),
                "ttft": case.ttft_s,
                "retrieval": c.retrieval_s,
                "build": c.build_s / c.queries_per_build if c.build_s else 0.0,
                "storage": c.storage_s_per_query,
                "transfer": c.transfer_s,
                "prefill": c.prefill_s,
                "decode": c.decode_extra_s,
                "total": c.per_query_s,
                "dollars": c.dollars(q.dollars_per_device_hour, devices),
            }
        )
    rag, cag = cases[Way.RAG].costs, cases[Way.CAG].costs
    figures = [
        Figure("build_s", "Building CAG's cache", cag.build_s, "s", basis,
               f"prefill of {q.shape.corpus:,} tokens", source),
        Figure("queries_per_build", "Questions that one build serves", cag.queries_per_build, "",
               Basis.EXACT, f"{q.queries_per_s:g}/s / ({q.updates_per_day:g} per day)", ""),
        Figure("break_even_queries", "Questions per build from which CAG is cheaper than RAG",
               even, "", basis, f"{cag.build_s:.4g} s / ({rag.online_s:.4g} - {cag.online_s:.4g}) s"
               if even is not None else f"RAG's {rag.online_s:.4g} s a question is less than "
               f"CAG's {cag.online_s:.4g} s", source),
    ]  # fmt: skip
    if even is not None and even > 0:
        updates = break_even_updates_per_s(q.queries_per_s, even) * 86_400
        figures.append(
            Figure("break_even_updates_per_day", "Updates a day above which CAG loses", updates,
                   "", basis, f"{q.queries_per_s:g}/s / {even:.4g} x 86,400", source)
        )  # fmt: skip
    reuse = [10.0**power for power in range(7)]
    return Section(
        "On own devices",
        text=(
            "Device-seconds per question: what the devices could have done for others meanwhile. "
            "Storage is the share of KV memory that the corpus keeps from other requests.",
        ),
        figures=tuple(figures),
        tables=(
            Table(
                "own",
                "Device-seconds of one question",
                (
                    Column("way", "Way"),
                    Column("ttft", "TTFT", "s", basis),
                    Column("retrieval", "Retrieval", "s", Basis.ASSUMED),
                    Column("build", "Build, shared", "s", basis),
                    Column("storage", "Storage", "s", basis),
                    Column("transfer", "Transfer", "s", Basis.ASSUMED),
                    Column("prefill", "Prefill", "s", basis),
                    Column("decode", "Decode", "s", basis),
                    Column("total", "All", "s", basis),
                    Column("dollars", "Cost", "$", basis),
                ),
                tuple(rows),
            ),
        ),
        charts=(
            Chart(
                "by_reuse",
                "Device-seconds of a question by reuse",
                Axis("Questions per build", log=True),
                Axis("Device-seconds", "s", log=True),
                tuple(
                    Series(
                        way.value.upper(),
                        reuse,
                        [case.costs.online_s + case.costs.build_s / n for n in reuse],
                    )
                    for way, case in cases.items()
                ),
            ),
        ),
    )


def _managed(q: KnowledgeQuestion, managed: dict[Way, float]) -> Section:
    prices = q.prices
    ratio = (
        prices.cached_dollars_per_million / prices.input_dollars_per_million
        if prices.input_dollars_per_million
        else 1.0
    )
    rag, cag = q.shape.prompt(Way.RAG), q.shape.prompt(Way.CAG)
    rows: list[dict[str, Cell]] = [
        {
            "way": way.value.upper(),
            "equivalents": token_equivalents(q.shape.prompt(way), min(1.0, ratio)),
            "dollars": managed[way],
        }
        for way in Way
    ]
    return Section(
        "At a managed API's prices",
        text=("Prices of tokens, not of devices: never add the two sections.",),
        figures=(
            Figure("managed_break_even_price_ratio",
                   "Price of cached over fresh tokens below which CAG is cheaper",
                   managed_break_even_price_ratio(rag, cag), "ratio", Basis.EXACT,
                   f"({rag.fresh:,} - {cag.fresh:,}) / ({cag.cached:,} - {rag.cached:,})",
                   "retrieval and storage left out"),
        ),
        tables=(
            Table(
                "managed",
                "One question",
                (
                    Column("way", "Way"),
                    Column("equivalents", "Fresh-token equivalents", "tokens", Basis.EXACT),
                    Column("dollars", "Cost", "$", Basis.ASSUMED),
                ),
                tuple(rows),
            ),
        ),
    )  # fmt: skip


def _loses(q: KnowledgeQuestion, cases: dict[Way, _Case], even: float | None) -> Section:
    rag, cag = cases[Way.RAG], cases[Way.CAG]
    slower = cag.costs.decode_extra_s - rag.costs.decode_extra_s
    text = [
        "RAG pays retrieval time and retrieval errors on every question.",
        "CAG pays build, residency and a longer context in every decode step; a long context does "
        "not guarantee that the model uses it. Quality is measured, by position, not computed.",
    ]
    if even is None:
        text.append("Here CAG loses at any reuse.")
    return Section(
        "When it loses",
        text=tuple(text),
        figures=(
            Figure("cag_decode_extra_s", "Decode time CAG's context adds to a question", slower,
                   "s", q.setup.basis, f"{cag.costs.decode_extra_s:.4g} - "
                   f"{rag.costs.decode_extra_s:.4g} s", q.setup.source),
            Figure("cag_kv_bytes", "KV that CAG keeps", cag.kv_bytes, "bytes", Basis.EXACT,
                   f"{q.shape.corpus:,} tokens", "config"),
        ),
    )  # fmt: skip


def _warnings(q: KnowledgeQuestion, cases: dict[Way, _Case]) -> tuple[str, ...]:
    found = []
    for way in Way:
        context = q.shape.prompt(way).context + q.answer_tokens
        if context > q.setup.shape.max_positions:
            found.append(
                f"{way.value.upper()} needs {context:,} positions and {q.setup.shape.name} has "
                f"{q.setup.shape.max_positions:,}: it cannot be used"
            )
    room = q.setup.kv_room_bytes(1, max(1, q.shape.corpus))
    if cases[Way.CAG].kv_bytes > room and not q.load_bytes_per_s:
        found.append(
            f"CAG's {cases[Way.CAG].kv_bytes:,} bytes of KV do not fit the "
            f"{room:,} that {q.setup.layout.devices} x {q.setup.device.name} has for it"
        )
    return tuple(found)
