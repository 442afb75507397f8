"""Does it fit: weights, keys and values, and what is left of a device."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from netgain.cost.kv_bytes import (
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    kv_bytes_per_token_stored,
    kv_marginal_bytes_per_token,
    state_bytes,
)
from netgain.cost.layout import ONE_DEVICE, Layout
from netgain.cost.loading import LOAD_RANGES
from netgain.cost.memory import (
    DEFAULT_SERVING,
    MemoryPlan,
    MemoryQuestion,
    Serving,
    chips_for_one_model,
    largest_model_len,
    plan_memory,
    with_serving,
)
from netgain.cost.model_shape import GroupedAttention, LatentAttention, ModelShape, StateAttention
from netgain.cost.precision import KVFormat, WeightFormat
from netgain.cost.ways_out import WayOut, fewest_devices, ways_out
from netgain.cost.weights import (
    bytes_per_parameter,
    rank_weight_bytes_by_part,
    rule_of_thumb_bytes,
    weight_bytes,
    weight_bytes_by_part,
)
from netgain.errors import CapacityError, ConfigurationError
from netgain.hardware.device import Device, Family
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


@dataclass(frozen=True, slots=True)
class MemoryAsk:
    """What `netgain plan memory` is asked. Without a device only the model is counted.

    `source` says where the shape was read; `others` are devices that ways out may name.
    """

    shape: ModelShape
    weights: WeightFormat
    kv: KVFormat
    source: str
    sequences: int = 16
    tokens: int = 4096
    device: Device | None = None
    layout: Layout = ONE_DEVICE
    serving: Serving = DEFAULT_SERVING
    others: tuple[Device, ...] = ()

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty traffic."""
        for name, size in (("batch", self.sequences), ("kv-length", self.tokens)):
            if size < 1:
                raise ConfigurationError(f"{name} is {size}: give 1 or more")

    def question(self, device: Device) -> MemoryQuestion:
        """The same on this device."""
        return MemoryQuestion(
            self.shape,
            device,
            self.weights,
            self.kv,
            self.sequences,
            self.tokens,
            self.layout,
            self.serving,
        )


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The report, and the error to end with where it does not fit."""

    report: Report
    failure: CapacityError | None


def answer_memory(ask: MemoryAsk) -> MemoryAnswer:
    """The whole answer.

    Raises `ConfigurationError` for empty traffic and for layouts the model cannot have.
    """
    sections = [_weights_section(ask), _kv_section(ask)]
    context: dict[str, Cell] = {
        "model": ask.shape.name,
        "read from": ask.source,
        "weights": ask.weights.name,
        "keys and values": ask.kv.name,
        "sequences": ask.sequences,
        "tokens each": ask.tokens,
    }
    warnings = list(ask.shape.notes)
    if ask.device is None:
        sections += [_holders_section(ask), _loading_section(ask)]
        total = weight_bytes(ask.shape, ask.weights) + _traffic_bytes(ask)
        verdict: tuple[str, ...] = (
            f"{_gib(total)} of weights and keys and values; say --on DEVICE to see whether they "
            "fit there.",
        )
        return MemoryAnswer(
            Report(
                f"Memory of {ask.shape.name}", tuple(sections), verdict, tuple(warnings), context
            ),
            None,
        )
    question = ask.question(ask.device)
    plan = plan_memory(question)
    outs = ways_out(question, ask.others) if not (plan.fits and plan.starts) else ()
    verdict, failure = _verdict(question, plan, outs)
    warnings += _warnings(question, plan)
    context |= {
        "device": f"{ask.layout.devices} x {ask.device.name}",
        "layout": _layout_text(ask.layout),
    }
    sections.append(_rank_section(question, plan))
    if outs:
        sections.append(_outs_section(outs))
    if ask.device.family is not Family.SRAM:
        sections.append(_knobs_section(question, plan))
    sections.append(_loading_section(ask))
    title = f"{ask.shape.name} on {ask.layout.devices} x {ask.device.name}: does it fit?"
    return MemoryAnswer(Report(title, tuple(sections), verdict, tuple(warnings), context), failure)


def kv_arithmetic(shape: ModelShape, kv: KVFormat) -> str:
    """Bytes per token with the numbers filled in, group by group."""
    terms = []
    for group in shape.groups:
        a = group.attention
        if isinstance(a, GroupedAttention):
            window = f" (window {a.window})" if a.window else ""
            scales = f" + scales {2 * kv.scale_bytes:g}" if kv.scale_bytes else ""
            heads = f"{a.kv_heads} KV heads"
            dims = (
                f"2 x {group.count} layers x {heads} x {a.head_dim}"
                if a.head_dim == a.value_dim
                else f"{group.count} layers x {heads} x ({a.head_dim} + {a.value_dim})"
            )
            terms.append(f"{dims} x {kv.bytes:g} B{scales}{window}")
        elif isinstance(a, LatentAttention):
            terms.append(
                f"{group.count} layers x (latent {a.kv_rank} + rope {a.rope_dim}) x {kv.bytes:g} B"
            )
    return " + ".join(terms) or "no layer keeps keys and values"


def _weights_section(ask: MemoryAsk) -> Section:
    shape, weights = ask.shape, ask.weights
    counted = shape.parameters_by_part()
    sizes = weight_bytes_by_part(shape, weights)
    total = sum(sizes.values())
    basis = Basis.MEASURED if weights.stored else Basis.EXACT
    figures = [
        Figure(
            "parameters", "Parameters", shape.parameters, "", Basis.EXACT,
            " + ".join(f"{part.value} {count:,}" for part, count in counted.items()), ask.source,
        ),
        Figure(
            "weights_bytes", "Weights", total, "bytes", basis,
            "bytes of the file's tensors" if weights.stored else " + ".join(
                f"{count:,} x {bytes_per_parameter(part, weights):.4g} B"
                for part, count in counted.items()
            ),
            ask.source,
        ),
        Figure(
            "rule_of_thumb_weights_bytes", "Rule of thumb: parameters x bytes",
            round(rule_of_thumb_bytes(shape.parameters, weights)), "bytes", Basis.ASSUMED,
            f"{shape.parameters:,} x {weights.rule_bytes:.4g} B",
            "a first lower bound: no scales, nothing kept at 16 bit",
        ),
        Figure(
            "rule_of_thumb_memory_bytes", "Rule of thumb: twice the model", 2 * total, "bytes",
            Basis.ASSUMED, f"2 x {total:,} B", "a starting point only; the real count is below",
        ),
    ]  # fmt: skip
    if shape.experts is not None:
        figures.insert(
            1,
            Figure(
                "active_parameters", "Parameters one token meets", shape.active_parameters, "",
                Basis.EXACT,
                f"{shape.experts.top_k} of {shape.experts.experts} experts per layer; "
                f"{shape.multiplied_parameters:,} without the embedding table",
                ask.source,
            ),
        )  # fmt: skip
    rows = tuple(
        {
            "part": part.value,
            "parameters": counted.get(part),
            "bytes": size,
            "share": size / total,
        }
        for part, size in sizes.items()
    )
    columns = (
        Column("part", "Part"),
        Column("parameters", "Parameters", "", Basis.EXACT),
        Column("bytes", "Bytes", "bytes", basis),
        Column("share", "Share", "ratio", basis),
    )
    return Section(
        "Weights",
        figures=tuple(figures),
        tables=(Table("weights_by_part", "Weights by part", columns, rows),),
    )


def _kv_section(ask: MemoryAsk) -> Section:
    shape, kv = ask.shape, ask.kv
    token = kv_bytes_per_token(shape, kv)
    one = kv_bytes_per_sequence(shape, ask.tokens, kv, block_tokens=ask.serving.block_tokens)
    figures = [
        Figure(
            "kv_bytes_per_token", "Keys and values per token", token, "bytes", Basis.EXACT,
            f"{kv_arithmetic(shape, kv)} = {token:,} B", ask.source,
        ),
        Figure(
            "kv_bytes", f"Keys and values of {ask.sequences} x {ask.tokens:,} tokens",
            ask.sequences * one, "bytes", Basis.EXACT,
            f"{ask.sequences} sequences x {one:,} B, lengths rounded up to blocks of "
            f"{ask.serving.block_tokens}", ask.source,
        ),
    ]  # fmt: skip
    marginal = kv_marginal_bytes_per_token(shape, kv)
    if marginal != token:
        figures.insert(
            1,
            Figure(
                "kv_marginal_bytes_per_token", "per token once the windows are full", marginal,
                "bytes", Basis.EXACT, "layers of full attention only", ask.source,
            ),
        )  # fmt: skip
    states = sum(
        group.count * state_bytes(group.attention)
        for group in shape.groups
        if isinstance(group.attention, StateAttention)
    )
    if states:
        figures.append(
            Figure(
                "state_bytes_per_sequence", "Constant state per sequence", round(states), "bytes",
                Basis.EXACT, "linear and state-space layers keep the same size at any length",
                ask.source,
            )
        )  # fmt: skip
    if ask.layout.tp > 1:
        group = kv_bytes_per_token_stored(shape, ask.layout, kv)
        figures.append(
            Figure(
                "kv_bytes_per_token_stored", f"stored per token by all {ask.layout.tp} ranks",
                group, "bytes", Basis.EXACT,
                f"every rank holds the latent: {ask.layout.tp} x {token:,} B"
                if shape.is_latent
                else f"a rank holds max(1, {shape.kv_heads} / {ask.layout.tp}) KV heads",
                "head replication under tensor parallelism",
            )
        )  # fmt: skip
    return Section("Keys and values", figures=tuple(figures))


def _rank_section(q: MemoryQuestion, plan: MemoryPlan) -> Section:
    device, serving = q.device, q.serving
    room = plan.budget_bytes - plan.weights_bytes - plan.activation_bytes - plan.reserve_bytes
    parts = rank_weight_bytes_by_part(q.shape, q.weights, q.layout)
    rows = (
        ("weights", plan.weights_bytes, Basis.EXACT),
        ("activations of one step", plan.activation_bytes, Basis.ASSUMED),
        ("runtime reserve", plan.reserve_bytes, Basis.ASSUMED),
        ("keys and values wanted", plan.kv_wanted_bytes, Basis.EXACT),
        (
            "free",
            max(0, plan.kv_room_bytes - plan.kv_wanted_bytes),
            Basis.ASSUMED,
        ),
        ("margin (1 - utilisation)", plan.memory_bytes - plan.budget_bytes, Basis.EXACT),
    )
    figures = [
        Figure(
            "memory_bytes", "Memory of one device", plan.memory_bytes, "bytes",
            device.memory_bytes.basis, f"the sheet says {device.sheet_memory}",
            device.memory_bytes.cited,
        ),
        Figure(
            "rank_weights_bytes", "Weights on the fullest rank", plan.weights_bytes, "bytes",
            Basis.MEASURED if q.weights.stored and q.layout.devices == 1 else Basis.EXACT,
            " + ".join(f"{part.value} {size:,}" for part, size in parts.items()),
            _layout_text(q.layout),
        ),
        Figure(
            "activation_bytes", "Activations of one step, at most", plan.activation_bytes, "bytes",
            Basis.ASSUMED,
            f"{serving.max_batched_tokens} tokens x 16-bit values of the widest layer, and "
            f"{serving.max_num_seqs} rows of logits twice at 32 bit",
            "not measured: depends on the engine's kernels",
        ),
        Figure(
            "reserve_bytes", "Runtime reserve", plan.reserve_bytes, "bytes", Basis.ASSUMED,
            "context, graphs and workspaces" + (
                ", collective buffers" if q.layout.tp * q.layout.pp > 1 else ""
            ),
            "aiconfigurator: 3.5 GiB and 342-392 MiB; LLMServingSim: 1.6 GiB on a 24 GB card",
        ),
        Figure(
            "kv_room_bytes", "Room for keys and values", plan.kv_room_bytes, "bytes",
            Basis.ASSUMED,
            f"{serving.utilisation:g} x {plan.memory_bytes:,} - {plan.weights_bytes:,} - "
            f"{plan.activation_bytes:,} - {plan.reserve_bytes:,}",
        ),
        Figure(
            "capacity_tokens", "Tokens of context that fit", plan.capacity_tokens, "tokens",
            Basis.ASSUMED, f"{plan.kv_room_bytes:,} / {plan.kv_token_bytes:,} B, in whole blocks",
        ),
        Figure(
            "capacity_sequences", f"Sequences of {q.tokens:,} tokens that fit",
            plan.capacity_sequences, "", Basis.ASSUMED,
            f"{plan.kv_room_bytes:,} B of room on a rank; {q.layout.dp} data-parallel copies",
        ),
        Figure(
            "shortfall_bytes", "Short by", plan.shortfall_bytes, "bytes", Basis.ASSUMED,
            f"{max(plan.kv_wanted_bytes, plan.kv_longest_bytes):,} B wanted - "
            f"{room:,} B of room",
        ),
        Figure(
            "binding_knob", "The knob that binds", plan.binding.value, "", Basis.ASSUMED,
            f"memory holds {plan.capacity_sequences // q.layout.dp}, max sequences is "
            f"{serving.max_num_seqs}, a step holds {serving.max_batched_tokens} tokens",
        ),
    ]  # fmt: skip
    if device.family is Family.SRAM:
        chips = chips_for_one_model(q)
        figures.append(
            Figure(
                "chips_for_one_model", "Chips that one model fills", chips, "", Basis.ASSUMED,
                f"(weights + keys and values) / {plan.memory_bytes:,} B, spread evenly by the "
                "compiler", device.memory_bytes.cited,
            )
        )  # fmt: skip
    table = Table(
        "rank_memory",
        "The fullest rank's memory",
        (
            Column("part", "Part"),
            Column("bytes", "Bytes", "bytes"),
            Column("share", "Share", "ratio"),
            Column("basis", "Basis"),
        ),
        tuple(
            {
                "part": name,
                "bytes": size,
                "share": size / plan.memory_bytes,
                "basis": basis.value,
            }
            for name, size, basis in rows
        ),
    )
    return Section(f"On {device.name}", figures=tuple(figures), tables=(table,))


def _outs_section(outs: tuple[WayOut, ...]) -> Section:
    rows: tuple[dict[str, Cell], ...] = tuple(
        {
            "change": out.change,
            "costs": out.costs,
            "sequences": out.plan.capacity_sequences,
            "spare": out.plan.kv_room_bytes - out.plan.kv_wanted_bytes,
        }
        for out in outs
    )
    columns = (
        Column("change", "Change"),
        Column("costs", "What it costs"),
        Column("sequences", "Sequences that fit then", "", Basis.ASSUMED),
        Column("spare", "Spare", "bytes", Basis.ASSUMED),
    )
    return Section(
        "Ways out",
        text=("From cheap to dear; each was computed to fit.",),
        tables=(Table("ways_out", "What to change", columns, rows),),
    )


def _knobs_section(q: MemoryQuestion, plan: MemoryPlan) -> Section:
    rows: list[dict[str, Cell]] = [_knob_row("as asked", q)]
    serving = q.serving
    for share in (0.8, 0.95):
        changed = replace(serving, utilisation=share)
        rows.append(_knob_row(f"utilisation {share:g}", with_serving(q, changed)))
    for tokens in (2048, 16384):
        if tokens != serving.max_batched_tokens:
            changed = replace(serving, max_batched_tokens=tokens)
            rows.append(_knob_row(f"max batched tokens {tokens:,}", with_serving(q, changed)))
    for factor in (2, 4):
        longer = replace(q, tokens=factor * q.tokens)
        rows.append(_knob_row(f"sequences of {longer.tokens:,} tokens", longer))
    for sequences in (serving.max_num_seqs // 4, serving.max_num_seqs * 2):
        changed = replace(serving, max_num_seqs=max(1, sequences))
        rows.append(_knob_row(f"max sequences {sequences:,}", with_serving(q, changed)))
    columns = (
        Column("setting", "Setting"),
        Column("sequences", "Sequences at once", "", Basis.ASSUMED),
        Column("tokens", "Tokens that fit", "tokens", Basis.ASSUMED),
        Column("binding", "What binds"),
    )
    return Section(
        "The four knobs",
        text=(
            "More sequences, longer sequences, larger steps and a smaller margin all draw on the "
            f"same room. Here {plan.binding.value} binds.",
        ),
        tables=(Table("knobs", "What each knob would change", columns, tuple(rows)),),
        charts=(_trade_off(q),),
    )


def _knob_row(setting: str, q: MemoryQuestion) -> dict[str, Cell]:
    many = replace(q, sequences=10**6)  # so that the knob shows, not the traffic
    plan = plan_memory(many)
    return {
        "setting": setting,
        "sequences": plan.runs,
        "tokens": plan.capacity_tokens,
        "binding": plan.binding.value,
    }


def _trade_off(q: MemoryQuestion) -> Chart:
    lengths = [
        2**power for power in range(8, 18) if 2**power <= max(q.shape.max_positions, q.tokens)
    ]
    series = []
    for share in sorted({0.8, 0.9, 0.95, q.serving.utilisation}):
        changed = with_serving(q, replace(q.serving, utilisation=share, max_model_len=None))
        counts = [
            plan_memory(replace(changed, tokens=length, sequences=10**6)).runs for length in lengths
        ]
        known = [(length, count) for length, count in zip(lengths, counts, strict=True) if count]
        if known:
            series.append(
                Series(
                    f"utilisation {share:g}",
                    [length for length, _ in known],
                    [count for _, count in known],
                )
            )
    return Chart(
        "sequences_by_length",
        "How many sequences run at once, by their length",
        Axis("tokens per sequence", "tokens", log=True),
        Axis("sequences", "", log=True),
        tuple(series),
    )


def _holders_section(ask: MemoryAsk) -> Section:
    rows: list[dict[str, Cell]] = []
    for device in ask.others:
        question = replace(ask, layout=ONE_DEVICE).question(device)
        if device.family is Family.SRAM:
            rows.append(_holder(device, chips_for_one_model(question), "spread by the compiler"))
            continue
        layout = fewest_devices(question)
        if layout is not None:
            rows.append(_holder(device, layout.devices, _layout_text(layout)))
    rows.sort(key=lambda row: (row["devices"], row["memory"]))
    columns = (
        Column("device", "Device"),
        Column("devices", "Devices", "", Basis.ASSUMED),
        Column("layout", "Layout"),
        Column("memory", "Memory of one", "bytes", Basis.ASSUMED),
    )
    return Section(
        "What would hold it",
        text=("The fewest devices of each kind, reserve and activations included.",),
        tables=(Table("holders", "Devices that hold it", columns, tuple(rows)),),
    )


def _holder(device: Device, count: int, layout: str) -> dict[str, Cell]:
    return {
        "device": device.name,
        "devices": count,
        "layout": layout,
        "memory": int(device.memory_bytes.value),
    }


def _loading_section(ask: MemoryAsk) -> Section:
    size = weight_bytes(ask.shape, ask.weights)
    rows: list[dict[str, Cell]] = []
    for stage in LOAD_RANGES:
        fastest, slowest = stage.seconds(size)
        rows.append(
            {
                "stage": stage.stage,
                "fast": stage.fastest_bytes_s,
                "slow": stage.slowest_bytes_s,
                "least": fastest,
                "most": slowest,
            }
        )
    columns = (
        Column("stage", "Read from"),
        Column("slow", "At the slowest", "bytes/s", Basis.ASSUMED),
        Column("fast", "At the fastest", "bytes/s", Basis.ASSUMED),
        Column("least", "Shortest", "s", Basis.ASSUMED),
        Column("most", "Longest", "s", Basis.ASSUMED),
    )
    return Section(
        "Loading",
        text=(
            "Storage, host memory and device memory follow each other; initialisation, compilation "
            "and warm-up come on top. A loading time outside these ranges is worth a look.",
        ),
        tables=(Table("loading", "How long the weights take", columns, tuple(rows)),),
    )


def _verdict(
    q: MemoryQuestion, plan: MemoryPlan, outs: tuple[WayOut, ...]
) -> tuple[tuple[str, ...], CapacityError | None]:
    what = f"{q.shape.name} in {q.weights.name} on {q.layout.devices} x {q.device.name}"
    if plan.fits and plan.starts:
        return (
            f"It fits: {q.sequences} sequences of {q.tokens:,} tokens take "
            f"{_gib(plan.kv_wanted_bytes)} of {_gib(plan.kv_room_bytes)} of room on a rank; "
            f"{plan.capacity_sequences:,} would fit, and {plan.binding.value} binds.",
        ), None
    if plan.capacity_sequences:
        problem = (
            f"only {plan.capacity_sequences} of {q.sequences} sequences of {q.tokens:,} tokens fit "
            "at once"
        )
    elif plan.kv_room_bytes:
        problem = f"not one sequence of {q.tokens:,} tokens fits beside the weights"
    else:
        problem = "the weights and what an engine keeps do not fit"
    if not plan.shortfall_bytes:
        problem = f"max batched tokens {q.serving.max_batched_tokens} is below the batch"
        raise ConfigurationError(
            f"{what}: {problem}; raise --max-batched-tokens to {q.sequences} or lower --batch"
        )
    if q.device.family is Family.SRAM:
        problem += f"; about {chips_for_one_model(q):,} chips hold it"
    first = f"It does not fit: {problem}; short by {plan.shortfall_bytes:,} bytes on a rank."
    ways = tuple(f"{out.change}: {out.costs}" for out in outs)
    if not ways:
        ways = ("no device in the catalogue holds it: see --hardware for devices of your own",)
    cheapest = f"Cheapest way out: {outs[0].change}." if outs else "No way out was found."
    return (first, cheapest), CapacityError(f"{what}: {problem}", plan.shortfall_bytes, ways)


def _warnings(q: MemoryQuestion, plan: MemoryPlan) -> Iterator[str]:
    device, shape = q.device, q.shape
    if device.low_confidence:
        yield f"{device.name}: some values are from memory, unchecked; compare-hardware lists them."
    if q.tokens > shape.max_positions:
        yield (
            f"{shape.name} was trained for {shape.max_positions:,} positions; {q.tokens:,} tokens "
            "need a longer rope scaling."
        )
    uneven = [g for g in shape.groups if not q.layout.is_even(g.attention)]
    if uneven:
        yield (
            f"{shape.heads} heads over {q.layout.tp} ranks are uneven: many engines refuse this, "
            "and the fullest rank sets the pace."
        )
    if plan.fits and q.serving.max_model_len is None and shape.max_positions > q.tokens:
        longest = largest_model_len(q)
        if longest < shape.max_positions:
            yield (
                f"An engine started with the model's own {shape.max_positions:,} tokens would not "
                f"start here: one sequence of at most {longest:,} fits (--max-model-len)."
            )
    if device.family is Family.SRAM:
        yield "An SRAM machine spreads one model over many chips: a single chip is shown."


def _traffic_bytes(ask: MemoryAsk) -> int:
    block = ask.serving.block_tokens
    one = kv_bytes_per_sequence(ask.shape, ask.tokens, ask.kv, block_tokens=block)
    return ask.sequences * one


def _layout_text(layout: Layout) -> str:
    sizes = (("TP", layout.tp), ("PP", layout.pp), ("DP", layout.dp), ("EP", layout.ep))
    return " x ".join(f"{name} {size}" for name, size in sizes if size > 1) or "one device"


def _gib(size: float) -> str:
    return f"{size / 2**30:,.4g} GiB" if math.isfinite(size) else "unbounded"
