"""`netgain plan cache`: load a prefix's KV from below, or make it again; how often a hit comes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from netgain.cost.bounds import at_least_zero, count, fraction, positive
from netgain.cost.interactions import fleet_hit_rate
from netgain.cost.kv_precision import R22_BF16, R22_FP8, LinearITL, break_even_context_tokens
from netgain.cost.planner.setup import Setup
from netgain.cost.planner.step_words import step_words
from netgain.cost.roofline import RooflineModel
from netgain.cost.step_costs import prefill_s
from netgain.cost.step_work import decode, prefill
from netgain.cost.tiers import (
    TierPath,
    break_even_tokens,
    codec_break_even_bytes_per_s,
    coded_s,
    distinct_items,
    infinite_cache_hit_rate,
    layer_pipelined_s,
    least_useful_bytes_per_s,
    race_s,
    race_share_computed,
    reuse_pays,
    warm_s,
    zipf,
)
from netgain.errors import ConfigurationError
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

_GIB: Final = 1 << 30
_MOST_PREFIXES: Final = 100_000
_LENGTHS: Final = (256, 1024, 4096, 16384, 65536)


@dataclass(frozen=True, slots=True)
class Codec:
    """`ratio` times smaller; rates in bytes/s of plain KV."""

    ratio: float
    encode_bytes_per_s: float
    decode_bytes_per_s: float

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for a ratio below 1 or rates of 0."""
        if self.ratio < 1:
            raise ConfigurationError(f"codec ratio is {self.ratio:g}: give 1 or more")
        positive("encode rate", self.encode_bytes_per_s)
        positive("decode rate", self.decode_bytes_per_s)

    def seconds(self, plain_bytes: float) -> float:
        """Encoding and decoding of so many bytes."""
        return plain_bytes / self.encode_bytes_per_s + plain_bytes / self.decode_bytes_per_s


@dataclass(frozen=True, slots=True)
class CacheQuestion:
    """A prefix that hits and the suffix that does not, the tiers below the device, the reuse.

    `prefixes` different prefixes of this length, Zipf with `exponent`, `requests` over the time in
    question, on `replicas` each with `capacity_bytes` in its tiers. `hit_rate`, if measured,
    overrides what the model of the cache says.
    """

    setup: Setup
    tiers: tuple[TierPath, ...]
    prefix_tokens: int = 8192
    suffix_tokens: int = 256
    prefixes: int = 1000
    exponent: float = 0.8
    requests: int = 20_000
    replicas: int = 4
    capacity_bytes: float = 256.0 * _GIB
    hit_rate: float | None = None
    codec: Codec | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty traffic, no tiers or a rate outside 0..1."""
        if not self.tiers:
            raise ConfigurationError("no tier: give one, such as --tier dram=50")
        for name in ("prefix_tokens", "suffix_tokens", "requests", "replicas"):
            count(name, getattr(self, name))
        count("prefixes", self.prefixes, most=_MOST_PREFIXES)
        positive("capacity", self.capacity_bytes)
        at_least_zero("exponent", self.exponent)
        if self.hit_rate is not None:
            fraction("hit_rate", self.hit_rate)


@dataclass(frozen=True, slots=True)
class _Parts:
    kv_bytes: int
    full_s: float
    suffix_s: float
    full_words: str
    suffix_words: str

    @property
    def saved_s(self) -> float:
        """Prefill that a hit makes unnecessary."""
        return self.full_s - self.suffix_s


def plan_cache(question: CacheQuestion) -> Report:
    """Load against recompute per tier, hit rates, codec and FP8 break-evens, when it loses."""
    q = question
    steps = q.setup.steps()
    parts = _of(q, steps, q.prefix_tokens)
    rows = [_row(q, parts, tier) for tier in q.tiers]
    random, aware = (_hits(q, q.capacity_bytes, by) for by in (False, True))
    fastest = min(rows, key=lambda row: float(row["warm"] or 0.0))
    return Report(
        title=f"KV of {q.setup.shape.name} below the device",
        sections=(
            _reuse(q, parts),
            _tiers(q, steps, rows),
            _hit_rates(q, parts, random, aware, float(fastest["warm"] or 0.0)),
            _loses(q, parts),
            _fp8(steps),
        ),
        verdict=_verdict(q, parts, rows, random, aware),
        warnings=(
            "A hit is only a hit if weights, tokenizer, RoPE, format and layout are the same: "
            "anything else must miss",
        ),
        context=q.setup.context()
        | {"prefix_tokens": q.prefix_tokens, "suffix_tokens": q.suffix_tokens},
    )


def _of(q: CacheQuestion, steps: RooflineModel, prefix: int) -> _Parts:
    return _Parts(
        q.setup.kv_bytes(prefix),
        prefill_s(steps, 0, prefix + q.suffix_tokens),
        prefill_s(steps, prefix, q.suffix_tokens),
        step_words(steps.estimate(prefill(prefix + q.suffix_tokens))),
        step_words(steps.estimate(prefill(q.suffix_tokens, prefix))),
    )


def _row(q: CacheQuestion, p: _Parts, tier: TierPath) -> dict[str, Cell]:
    load = tier.load_s(p.kv_bytes)
    moved = load - tier.latency_s - tier.queue_s
    warm = warm_s(tier.latency_s, tier.queue_s, moved, 0.0, p.suffix_s)
    both = race_s(load, p.saved_s) + p.suffix_s if load else p.suffix_s
    per_token = p.saved_s / q.prefix_tokens
    row: dict[str, Cell] = {
        "tier": tier.name,
        "rate": tier.bytes_per_s,
        "load": load,
        "warm": warm,
        "recompute": p.full_s,
        "pick": "load" if reuse_pays(warm, p.full_s) else "recompute",
        "both": both,
        "computed": race_share_computed(load, p.saved_s),
        "pipelined": layer_pipelined_s(load, p.suffix_s, q.setup.shape.layers),
        "break_even": break_even_tokens(tier, p.kv_bytes / q.prefix_tokens, per_token),
    }
    if q.codec is not None:
        took = q.codec.seconds(p.kv_bytes)
        coded = (
            tier.latency_s
            + tier.queue_s
            + coded_s(p.kv_bytes, q.codec.ratio, tier.bytes_per_s, took)
        )
        row["coded"] = coded + p.suffix_s
    return row


def _hits(q: CacheQuestion, capacity_bytes: float, by_prefix: bool) -> float:
    if q.hit_rate is not None:
        return q.hit_rate
    each = capacity_bytes / q.setup.kv_bytes(q.prefix_tokens)
    if each < 1:
        return 0.0
    popularity = zipf(q.prefixes, q.exponent)
    return fleet_hit_rate(popularity, each, q.replicas, q.requests, by_prefix)


def _verdict(
    q: CacheQuestion, p: _Parts, rows: list[dict[str, Cell]], random: float, aware: float
) -> tuple[str, ...]:
    useful = [str(row["tier"]) for row in rows if row["pick"] == "load"]
    useless = [str(row["tier"]) for row in rows if row["pick"] != "load"]
    said = []
    if useful:
        said.append(
            f"Loading {q.prefix_tokens:,} tokens beats their prefill ({p.full_s * 1e3:.4g} ms) "
            f"from {', '.join(useful)}" + (f", not from {', '.join(useless)}." if useless else ".")
        )
    else:
        said.append(
            f"Recompute: no tier returns {q.prefix_tokens:,} tokens faster than prefilling them "
            f"({p.full_s * 1e3:.4g} ms)."
        )
    if q.hit_rate is None and q.replicas > 1 and aware > random + 0.02:
        said.append(
            f"Route by prefix: {aware:.0%} of the requests hit instead of {random:.0%}; wider "
            "tiers alone do not bring that."
        )
    return tuple(said)


def _reuse(q: CacheQuestion, p: _Parts) -> Section:
    basis, source = q.setup.basis, q.setup.source
    per_token = p.kv_bytes / q.prefix_tokens
    least = least_useful_bytes_per_s(per_token, p.saved_s / q.prefix_tokens)
    return Section(
        "What a hit saves",
        figures=(
            Figure("kv_bytes", f"KV of {q.prefix_tokens:,} tokens", p.kv_bytes, "bytes",
                   Basis.EXACT, f"{q.prefix_tokens:,} x {per_token:,.0f} B", "config"),
            Figure("full_prefill_s", "Prefill of prefix and suffix", p.full_s, "s", basis,
                   p.full_words,
                   source),
            Figure("suffix_prefill_s", "Prefill of the suffix alone", p.suffix_s, "s", basis,
                   f"{q.suffix_tokens} tokens after {q.prefix_tokens:,} cached ones: "
                   f"{p.suffix_words}",
                   source),
            Figure("least_bytes_per_s", "Least useful bandwidth", least, "bytes/s", basis,
                   f"{per_token:,.0f} B / ({p.saved_s:.4g} s / {q.prefix_tokens:,})",
                   "bytes per token over prefill seconds per token"),
        ),
    )  # fmt: skip


def _tiers(q: CacheQuestion, steps: RooflineModel, rows: list[dict[str, Cell]]) -> Section:
    basis = q.setup.basis
    columns = [
        Column("tier", "Tier"),
        Column("rate", "Effective rate", "bytes/s", Basis.ASSUMED),
        Column("load", "Load", "s", Basis.ASSUMED),
        Column("warm", "Warm TTFT", "s", basis),
        Column("recompute", "Recompute", "s", basis),
        Column("pick", "Choose"),
        Column("both", "From both ends", "s", basis),
        Column("computed", "Computed then", "fraction", basis),
        Column("pipelined", "Layer by layer", "s", basis),
        Column("break_even", "Loads from", "tokens", basis),
    ]
    if q.codec is not None:
        columns.append(Column("coded", "With codec", "s", basis))
    lengths = [n for n in _LENGTHS if n + q.suffix_tokens <= q.setup.shape.max_positions]
    by_length = {n: _of(q, steps, n) for n in lengths}
    series = [Series("recompute", lengths, [by_length[n].full_s for n in lengths])]
    series += [
        Series(
            tier.name,
            lengths,
            [tier.load_s(by_length[n].kv_bytes) + by_length[n].suffix_s for n in lengths],
        )
        for tier in q.tiers
    ]
    return Section(
        "Load or recompute",
        text=(
            "Warm TTFT = look-up + queue + transfer + deserialising + prefill of the suffix. From "
            "both ends: compute from the front while loading from the back (Cake).",
        ),
        tables=(Table("tiers", "By tier", tuple(columns), tuple(rows)),),
        charts=(
            Chart(
                "ttft_by_prefix",
                "TTFT by prefix length",
                Axis("Prefix", "tokens", log=True),
                Axis("TTFT", "s", log=True),
                tuple(series),
            ),
        ),
    )


def _hit_rates(q: CacheQuestion, p: _Parts, random: float, aware: float, warm: float) -> Section:
    basis = Basis.MEASURED if q.hit_rate is not None else Basis.ASSUMED
    capacities = [q.capacity_bytes * 2.0**power for power in range(-3, 4)]
    rows: tuple[Mapping[str, Cell], ...] = tuple(
        {
            "capacity": capacity,
            "prefixes": int(capacity // p.kv_bytes),
            "random": _hits(q, capacity, False),
            "aware": _hits(q, capacity, True),
        }
        for capacity in capacities
    )
    queried = q.prefix_tokens + q.suffix_tokens
    distinct = distinct_items(zipf(q.prefixes, q.exponent), q.requests)
    most = infinite_cache_hit_rate(distinct, q.requests)
    expected = random * warm + (1 - random) * p.full_s
    return Section(
        "How often a hit comes",
        text=(
            f"{q.prefixes:,} prefixes, Zipf {q.exponent:g}, {q.requests:,} requests from empty "
            f"caches, LRU (Che's approximation), {q.replicas} replicas with a tier each.",
        ),
        figures=(
            Figure("request_hit_rate", "Requests that hit, routed at random", random, "fraction",
                   basis, "sum of p (1 - exp(-p T_C)), each first request a miss", "Che"),
            Figure("request_hit_rate_by_prefix", "Requests that hit, routed by prefix", aware,
                   "fraction", basis, "one cache of all replicas' capacity", "Che"),
            Figure("most_hit_rate", "Most that a cache of any size can hit", most, "fraction",
                   Basis.ASSUMED, f"1 - {distinct:,.0f} different prefixes / {q.requests:,} "
                   "requests", "each misses once"),
            Figure("token_hit_rate", "Tokens that hit, routed at random",
                   random * q.prefix_tokens / queried, "fraction", basis,
                   f"{random:.4g} x {q.prefix_tokens:,} / {queried:,}",
                   "a request rate alone misleads: 90 x 16 tokens save less than 10 x 50,000"),
            Figure("expected_ttft_s", "Mean prefill or load of a request", expected, "s",
                   q.setup.basis, f"{random:.4g} x {warm * 1e3:.4g} ms + {1 - random:.4g} x "
                   f"{p.full_s * 1e3:.4g} ms", "the fastest tier"),
        ),
        tables=(
            Table(
                "hit_rates",
                "Request hit rate by capacity of each replica's tiers",
                (
                    Column("capacity", "Capacity each", "bytes", Basis.EXACT),
                    Column("prefixes", "Prefixes it holds", "", Basis.EXACT),
                    Column("random", "Routed at random", "fraction", basis),
                    Column("aware", "Routed by prefix", "fraction", basis),
                ),
                rows,
            ),
        ),
        charts=(
            Chart(
                "hit_rate",
                "Hit rate by capacity",
                Axis("Capacity of each replica", "bytes", log=True),
                Axis("Requests that hit"),
                tuple(
                    Series(label, capacities, [float(row[key] or 0.0) for row in rows])
                    for label, key in (("at random", "random"), ("by prefix", "aware"))
                ),
            ),
        ),
    )  # fmt: skip


def _loses(q: CacheQuestion, p: _Parts) -> Section:
    slowest = min(q.tiers, key=lambda tier: tier.bytes_per_s)
    store = p.kv_bytes / slowest.bytes_per_s
    figures = [
        Figure("store_s", f"Storing a missed prefix to {slowest.name}", store, "s", Basis.ASSUMED,
               f"{p.kv_bytes:.4g} B / {slowest.bytes_per_s / 1e9:.4g} GB/s",
               "extra on a cold request, off its critical path if written back"),
    ]  # fmt: skip
    if q.codec is not None:
        took = q.codec.seconds(p.kv_bytes)
        rate = codec_break_even_bytes_per_s(p.kv_bytes, q.codec.ratio, took)
        figures.append(
            Figure("codec_break_even_bytes_per_s", "Bandwidth below which the codec pays", rate,
                   "bytes/s", Basis.ASSUMED, f"{p.kv_bytes:.4g} B x (1 - 1/{q.codec.ratio:g}) / "
                   f"{took:.4g} s", "quality on the task must pass too")
        )  # fmt: skip
    return Section(
        "When it loses",
        text=(
            "Below the least useful bandwidth loading is slower than prefilling. Past its capacity "
            "a tier falls off a cliff: published, hits 83 to 36 % and TTFT 6 to 16 s (R8).",
        ),
        figures=tuple(figures),
    )


def _fp8(steps: RooflineModel) -> Section:
    """FP8 KV: the overhead measured for R22, against what halving the reads saves here."""
    near, far = (steps.seconds(decode(1, context)) for context in (1024, 33_792))
    slope = (far - near) / 32_768
    base = near - 1024 * slope
    extra = R22_FP8.base_s - R22_BF16.base_s
    ratio = R22_FP8.per_token_s / R22_BF16.per_token_s
    here = break_even_context_tokens(LinearITL(base, slope), LinearITL(base + extra, slope * ratio))
    there = break_even_context_tokens(R22_BF16, R22_FP8)
    return Section(
        "KV in 8 bits",
        figures=(
            Figure("fp8_kv_break_even_tokens", "Context from which FP8 KV is faster here", here,
                   "tokens", Basis.ASSUMED, f"{extra * 1e3:.4g} ms / ({slope * 1e6:.4g} us x "
                   f"(1 - {ratio:.3f}))", "dequantisation of R22, this model's own slope; batch 1"),
            Figure("fp8_kv_published_tokens", "The same, published (Llama-3.1-8B, H100)", there,
                   "tokens", Basis.ASSUMED, "(6.58 - 6.44) ms / (4.37e-5 - 2.37e-5) ms",
                   "vLLM post 2026-04-22"),
        ),
    )  # fmt: skip
