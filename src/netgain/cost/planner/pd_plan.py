"""`netgain plan pd`: one pool or two, how many of each, and what the handoff of KV costs."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, TypeAlias

from netgain.cost.bounds import count, fraction, positive
from netgain.cost.chunking import MOST_PROMPT_TOKENS, choice_of, largest_chunk_tokens
from netgain.cost.disaggregation import (
    FULL_LINK,
    Situation,
    balanced_ratio,
    decode_rate_per_s,
    link_use,
    net_per_request_s,
    pool_rates,
    pools_needed,
    prefill_rate_per_s,
    reasons_against,
    splits,
    ttft_s,
    unified_pool,
)
from netgain.cost.kv_bytes import kv_copies
from netgain.cost.kv_transfer import (
    descriptors,
    handoff_s,
    visible_by_chunk_s,
    visible_by_layer_s,
)
from netgain.cost.planner.setup import Setup
from netgain.cost.planner.step_words import step_words
from netgain.cost.queueing import Service, wait_quantile_s
from netgain.cost.step_costs import prefill_s
from netgain.cost.step_work import decode, prefill
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

_MOST_INSTANCES: Final = 256
_MOST_SEQUENCES: Final = 8192
_MOST_SPLITS: Final = 32

_Latency: TypeAlias = Callable[[float], tuple[float, float]]


@dataclass(frozen=True, slots=True)
class PDQuestion:
    """Traffic, instances (each one replica of `setup`), SLOs, and the link between the pools.

    `link_bytes_per_s` is one instance's effective way out, in bytes/s. `descriptor_s` is paid per
    record moved; blocks join their layers unless `joined_layers` is off. `outside_share` is the
    share of TTFT spent outside the engine. `ttft_s` and `itl_s` are bounds at p95.
    """

    setup: Setup
    rate_per_s: float = 8.0
    prompt_tokens: int = 4096
    output_tokens: int = 256
    instances: int = 4
    batch: int = 64
    link_bytes_per_s: float = 38e9
    link_name: str = "InfiniBand NDR, 76 % of 50 GB/s"
    chunk_tokens: int = 2048
    ttft_s: float = 1.0
    itl_s: float = 0.05
    descriptor_s: float = 5e-6
    block_tokens: int = 16
    joined_layers: bool = True
    outside_share: float = 0.0
    observed: bool = True

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty or negative traffic."""
        for name in ("rate_per_s", "link_bytes_per_s", "ttft_s", "itl_s"):
            positive(name, getattr(self, name))
        count("instances", self.instances, most=_MOST_INSTANCES)
        count("batch", self.batch, most=_MOST_SEQUENCES)
        count("prompt_tokens", self.prompt_tokens, most=MOST_PROMPT_TOKENS)
        for name in ("output_tokens", "chunk_tokens"):
            count(name, getattr(self, name))
        count("block_tokens", self.block_tokens)
        fraction("outside_share", self.outside_share)

    @property
    def context_tokens(self) -> int:
        """Mean context of a decode step."""
        return self.prompt_tokens + self.output_tokens // 2


@dataclass(frozen=True, slots=True)
class _Parts:
    prefill_s: float
    step_s: float
    kv_bytes: int
    records: int
    transfer_s: float
    visible_s: float
    by_chunk_s: float
    chunks: int
    link_use: float
    prefill_per_s: float
    decode_per_s: float
    use_words: str
    prefill_words: str
    step_words: str


def plan_pd(question: PDQuestion) -> Report:
    """Rates, balance, the handoff, unified against every split, and whether to separate."""
    parts = _parts(question)
    situation = Situation(
        prefill_s=parts.prefill_s,
        decode_step_s=parts.step_s,
        rate_per_s=question.rate_per_s,
        prefill_per_s=parts.prefill_per_s,
        decode_per_s=parts.decode_per_s,
        link_use=parts.link_use,
        outside_share=question.outside_share,
        observed=question.observed,
        instances=question.instances,
    )
    against = reasons_against(situation)
    rows = _rows(question, parts)
    pools = [row for row in rows if row["pools"] != "unified"]
    unified = rows[0]
    best = max(pools, key=lambda row: float(row["goodput"] or 0.0), default=None)
    verdict = [_answer(against, unified, best)]
    warnings = []
    if parts.link_use > FULL_LINK:
        warnings.append(
            f"The link would be {parts.link_use:.0%} full: handoffs queue above {FULL_LINK:.0%}"
        )
    copies = kv_copies(question.setup.shape, question.setup.layout)
    if copies is not None:
        warnings.append(copies)
    return Report(
        title=f"Prefill and decode of {question.setup.shape.name}, together or apart",
        sections=(
            _rates(question, parts),
            _handoff(question, parts),
            _compared(question, rows),
            _loses(question, parts, against),
        ),
        verdict=tuple(verdict),
        warnings=tuple(warnings),
        context=question.setup.context()
        | {
            "instances": question.instances,
            "rate_per_s": question.rate_per_s,
            "prompt_tokens": question.prompt_tokens,
            "output_tokens": question.output_tokens,
            "link": question.link_name,
        },
    )


def _parts(q: PDQuestion) -> _Parts:
    steps = q.setup.steps()
    whole_s = prefill_s(steps, 0, q.prompt_tokens)
    step = steps.seconds(decode(q.batch, q.context_tokens))
    kv = q.setup.kv_bytes(q.prompt_tokens)
    records = descriptors(q.prompt_tokens, q.block_tokens, q.setup.shape.layers, q.joined_layers)
    moved = handoff_s(kv, q.link_bytes_per_s, q.descriptor_s, records)
    whole, rest = divmod(q.prompt_tokens, q.chunk_tokens)
    chunks = [q.chunk_tokens] * whole + [rest] * (rest > 0)
    chunk_s = [
        prefill_s(steps, sum_before, tokens)
        for tokens, sum_before in zip(chunks, accumulate([0, *chunks]), strict=False)
    ]
    # Every prefill instance has its own way out: the traffic of each is what its link carries.
    per_link = min(q.rate_per_s / max(1, q.instances // 2), 1 / whole_s)
    use = f"{kv:,} B x {per_link:.4g}/s / {q.link_bytes_per_s / 1e9:.4g} GB/s"
    return _Parts(
        whole_s,
        step,
        kv,
        records,
        moved,
        visible_by_layer_s(moved, whole_s, q.setup.shape.layers),
        visible_by_chunk_s(moved, chunk_s, chunks),
        len(chunks),
        link_use(kv, per_link, q.link_bytes_per_s),
        prefill_rate_per_s(whole_s),
        decode_rate_per_s(q.batch, step, q.output_tokens),
        f"{use}, half of the instances prefilling; too full from {FULL_LINK:.0%}",
        step_words(steps.estimate(prefill(q.prompt_tokens))),
        step_words(steps.estimate(decode(q.batch, q.context_tokens))),
    )


def _answer(
    against: tuple[str, ...], unified: dict[str, Cell], best: dict[str, Cell] | None
) -> str:
    together = float(unified["goodput"] or 0.0)
    if best is None:
        return "One instance: nothing to separate."
    apart = float(best["goodput"] or 0.0)
    compared = (
        f"{best['pools']} carries {apart:.3g} requests/s within both SLOs, one pool of the same "
        f"devices {together:.3g}"
    )
    if against:
        return f"Do not separate: {against[0]}. ({compared}, by the model.)"
    if apart > 1.05 * together:
        return f"Worth a trial: {compared}. A table gives a hypothesis, a measurement a verdict."
    return f"Keep one pool: {compared}."


def _rates(q: PDQuestion, p: _Parts) -> Section:
    basis, source = q.setup.basis, q.setup.source
    x, y = pools_needed(q.rate_per_s, p.prefill_s, q.output_tokens, p.step_s, q.batch)
    ratio = balanced_ratio(p.prefill_per_s, p.decode_per_s)
    return Section(
        "Rates of one instance, and the balance",
        figures=(
            Figure("prefill_s", f"Prefill of {q.prompt_tokens:,} tokens", p.prefill_s, "s", basis,
                   p.prefill_words, source),
            Figure("decode_step_s", f"Decode step at batch {q.batch}", p.step_s, "s", basis,
                   f"context {q.context_tokens:,} each: {p.step_words}", source),
            Figure("prefill_per_s", "Prefills/s of one instance", p.prefill_per_s, "requests/s",
                   basis, f"1 / {p.prefill_s:.4g} s", source),
            Figure("decode_per_s", "Answers/s of one instance", p.decode_per_s, "requests/s",
                   basis, f"{q.batch} / ({q.output_tokens} x {p.step_s * 1e3:.4g} ms)", source),
            Figure("balance", "Prefill instances per decode instance", ratio, "ratio", basis,
                   f"{p.decode_per_s:.4g} / {p.prefill_per_s:.4g}", "R_d / R_p"),
            Figure("prefill_instances", "Prefill instances for this traffic", x, "", basis,
                   f"ceil({q.rate_per_s:g} x {p.prefill_s:.4g} / 0.8)", "80 % busy at most"),
            Figure("decode_instances", "Decode instances for this traffic", y, "", basis,
                   f"ceil({q.rate_per_s:g} x {q.output_tokens} x {p.step_s:.4g} / "
                   f"({q.batch} x 0.8))", "80 % busy at most"),
        ),
    )  # fmt: skip


def _handoff(q: PDQuestion, p: _Parts) -> Section:
    basis, source = q.setup.basis, q.setup.source
    return Section(
        "The handoff",
        text=(
            "Overlap hides a transfer only while there is prefill to hide behind; the last layer "
            "always shows.",
        ),
        figures=(
            Figure("kv_bytes_per_request", "KV of one request", p.kv_bytes, "bytes", Basis.EXACT,
                   f"{q.prompt_tokens:,} tokens, copies of a tensor-parallel group included", ""),
            Figure("link_bytes_per_s", "Effective rate of an instance's link",
                   q.link_bytes_per_s, "bytes/s", Basis.ASSUMED, "", q.link_name),
            Figure("records", "Records moved", p.records, "", Basis.EXACT,
                   f"ceil({q.prompt_tokens} / {q.block_tokens})"
                   + ("" if q.joined_layers else f" x {q.setup.shape.layers} layers"), ""),
            Figure("handoff_s", "Transfer alone", p.transfer_s, "s", Basis.ASSUMED,
                   f"{p.records} x {q.descriptor_s * 1e6:.3g} us + {p.kv_bytes:.4g} B / "
                   f"{q.link_bytes_per_s / 1e9:.4g} GB/s", "alpha per record + bytes / bandwidth"),
            Figure("visible_handoff_s", "Of it visible under layer overlap", p.visible_s, "s",
                   basis, f"max({p.transfer_s * 1e3:.4g} / {q.setup.shape.layers}, "
                   f"{p.transfer_s * 1e3:.4g} - {p.prefill_s * 1e3:.4g} x (L - 1) / L) ms", source),
            Figure("visible_by_chunk_s", f"Visible if sent by chunks of {q.chunk_tokens:,}",
                   p.by_chunk_s, "s", basis,
                   f"{p.chunks} chunks, each sent once it is made and the link is free; the last "
                   "hides behind nothing", source),
            Figure("link_use", "Use of a prefill instance's link", p.link_use, "fraction", basis,
                   p.use_words,
                   "SPEC 11: 1.2 GiB x 8/s over 12 GiB/s is 80 %"),
        ),
    )  # fmt: skip


def _rows(q: PDQuestion, p: _Parts) -> list[dict[str, Cell]]:
    steps = q.setup.steps()
    largest = largest_chunk_tokens(steps, q.prompt_tokens, q.batch, q.context_tokens, q.itl_s)
    chunk = min(q.chunk_tokens, largest) if largest else q.chunk_tokens
    choice = choice_of(steps, q.prompt_tokens, chunk, q.batch, q.context_tokens)

    def together(rate: float) -> tuple[float, float]:
        wait = wait_quantile_s(rate, Service(choice.prefill_s, 0.0), 0.95, q.instances)
        return wait + choice.prefill_s, choice.mixed_itl_s

    pool = unified_pool(
        q.instances, q.rate_per_s, choice.steps, q.output_tokens, q.batch,
        choice.plain_itl_s, choice.mixed_itl_s,
    )  # fmt: skip
    ttft, itl = together(q.rate_per_s)
    rows: list[dict[str, Cell]] = [
        {
            "pools": "unified",
            "rate": pool.requests_per_s,
            "bound": f"chunks of {chunk}",
            "ttft": ttft,
            "itl": itl,
            "itl_mean": pool.mean_itl_s,
            "idle": None,
            "goodput": _goodput(q, pool.requests_per_s, together),
        }
    ]
    for x, y in _shown_splits(q, p):
        rates = pool_rates(x, y, p.prefill_per_s, p.decode_per_s, p.kv_bytes, q.link_bytes_per_s)

        def apart(rate: float, x: int = x, y: int = y) -> tuple[float, float]:
            wait = wait_quantile_s(rate, Service(p.prefill_s, 0.0), 0.95, x)
            slots = wait_quantile_s(rate, Service(q.output_tokens * p.step_s), 0.95, y * q.batch)
            return ttft_s(wait, p.prefill_s, p.visible_s, slots, p.step_s), p.step_s

        ttft, itl = apart(q.rate_per_s)
        rows.append(
            {
                "pools": f"{x}P:{y}D",
                "rate": rates.requests_per_s,
                "bound": rates.bound_by,
                "ttft": ttft,
                "itl": itl,
                "itl_mean": p.step_s,
                "idle": rates.idle,
                "goodput": _goodput(q, rates.requests_per_s, apart),
            }
        )
    return rows


def _shown_splits(q: PDQuestion, p: _Parts) -> list[tuple[int, int]]:
    """Every split of few instances; of many some evenly apart, and those about the balance."""
    every = list(splits(q.instances))
    if len(every) <= _MOST_SPLITS:
        return every
    prefill_share = p.decode_per_s / (p.decode_per_s + p.prefill_per_s)
    balanced = round(prefill_share * q.instances)
    apart = {1 + place * (len(every) - 1) // (_MOST_SPLITS - 1) for place in range(_MOST_SPLITS)}
    chosen = apart | set(range(balanced - 2, balanced + 3))
    return [(x, y) for x, y in every if x in chosen]


def _goodput(q: PDQuestion, most: float, times: _Latency) -> float:
    """The highest rate, up to what the pools finish, at which both p95 bounds hold; 0 if none."""

    def holds(rate: float) -> bool:
        ttft, itl = times(rate)
        return ttft <= q.ttft_s and itl <= q.itl_s

    if not holds(most * 1e-6):
        return 0.0
    low, high = most * 1e-6, most * 0.999999
    if holds(high):
        return high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _compared(q: PDQuestion, rows: list[dict[str, Cell]]) -> Section:
    basis = q.setup.basis
    return Section(
        f"{q.instances} instances, together and apart",
        text=(
            f"Within the SLOs means TTFT <= {q.ttft_s:g} s and ITL <= {q.itl_s * 1e3:g} ms at p95. "
            "In one pool the ITL shown is that of a step with a prefill chunk, the largest that "
            "keeps the bound.",
        ),
        tables=(
            Table(
                "pools",
                f"At {q.rate_per_s:g} requests/s",
                (
                    Column("pools", "Pools"),
                    Column("rate", "Finishes at most", "requests/s", basis),
                    Column("bound", "Bound by"),
                    Column("ttft", "TTFT p95", "s", basis),
                    Column("itl", "ITL p95", "s", basis),
                    Column("itl_mean", "ITL mean", "s", basis),
                    Column("idle", "Idle at most rate", "fraction", basis),
                    Column("goodput", "Within both SLOs", "requests/s", basis),
                ),
                tuple(rows),
            ),
        ),
        charts=(
            Chart(
                "goodput",
                "Requests/s within both SLOs, same devices",
                Axis("Pools"),
                Axis("Requests/s"),
                (
                    Series(
                        "within SLOs",
                        [str(row["pools"]) for row in rows],
                        [float(row["goodput"] or 0.0) for row in rows],
                        Mark.BARS,
                    ),
                ),
            ),
        ),
    )


def _loses(q: PDQuestion, p: _Parts, against: tuple[str, ...]) -> Section:
    steps = q.setup.steps()
    choice = choice_of(
        steps, q.prompt_tokens, min(q.chunk_tokens, q.prompt_tokens), q.batch, q.context_tokens
    )
    # While a neighbour's prompt is prefilled, every decoding request waits for its chunks.
    arrivals = q.rate_per_s / q.instances * q.output_tokens * choice.plain_itl_s
    suffered = arrivals * choice.steps
    net = net_per_request_s(choice.interference_s, suffered, p.visible_s)
    return Section(
        "When it loses",
        text=against or ("Nothing speaks against trying it, by what was given.",),
        figures=(
            Figure("interference_s", "Interference of one chunk", choice.interference_s, "s",
                   q.setup.basis, f"{choice.mixed_itl_s * 1e3:.4g} - "
                   f"{choice.plain_itl_s * 1e3:.4g} ms", "published: 150 against 30 ms (R74)"),
            Figure("net_per_request_s", "Interference spared less visible handoff, per request",
                   net, "s", q.setup.basis,
                   f"{suffered:.4g} chunks x {choice.interference_s * 1e3:.4g} ms - "
                   f"{p.visible_s * 1e3:.4g} ms", q.setup.source),
        ),
    )  # fmt: skip
