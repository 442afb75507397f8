"""Sections about one rank of a device: its parts, the ways out, the four knobs."""

from dataclasses import replace

from netgain.cost.memory import (
    MemoryPlan,
    MemoryQuestion,
    chips_for_one_model,
    plan_memory,
    reserve_parts,
    with_serving,
)
from netgain.cost.planner.memory_ask import layout_text
from netgain.cost.ways_out import WayOut
from netgain.cost.weights import (
    rank_weight_bytes_by_part,
)
from netgain.hardware.device import Family
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Figure,
    Section,
    Series,
    Table,
)


def rank_section(q: MemoryQuestion, plan: MemoryPlan) -> Section:
    """The fullest rank, part by part."""
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
    context, buffers = reserve_parts(q.device, q.layout)
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
            layout_text(q.layout),
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
            f"{context:,} B of context, graphs and workspaces"
            + (f" + {buffers:,} B of collective buffers" if buffers else ""),
            "aiconfigurator: 3.5 GiB and 342-392 MiB; LLMServingSim: 1.6 GiB on a 24 GB card",
        ),
        Figure(
            "kv_room_bytes", "Room for keys and values", plan.kv_room_bytes, "bytes",
            Basis.ASSUMED,
            f"{serving.utilisation:g} x {plan.memory_bytes:,} - {plan.weights_bytes:,} - "
            f"{plan.activation_bytes:,} - {plan.reserve_bytes:,}",
            "utilisation x memory - weights - activations - reserve",
        ),
        Figure(
            "capacity_tokens", "Tokens of context that fit", plan.capacity_tokens, "tokens",
            Basis.ASSUMED, f"{plan.kv_room_bytes:,} / {plan.kv_token_bytes:,} B, in whole blocks",
            "capacity = room / bytes per token",
        ),
        Figure(
            "capacity_sequences", f"Sequences of {q.tokens:,} tokens that fit",
            plan.capacity_sequences, "", Basis.ASSUMED,
            f"{plan.kv_room_bytes:,} B of room on a rank; {q.layout.dp} data-parallel copies",
            "capacity = room / bytes per sequence, windows and states as they are",
        ),
        Figure(
            "shortfall_bytes", "Short by", plan.shortfall_bytes, "bytes", Basis.ASSUMED,
            f"{max(plan.kv_wanted_bytes, plan.kv_longest_bytes):,} B wanted - "
            f"{room:,} B of room",
            "what is wanted, and one sequence of the longest length",
        ),
        Figure(
            "binding_knob", "The knob that binds", plan.binding.value, "", Basis.ASSUMED,
            f"memory holds {plan.capacity_sequences // q.layout.dp}, max sequences is "
            f"{serving.max_num_seqs}, a step holds {serving.max_batched_tokens} tokens",
            "the smallest of the four limits",
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
            Column("share", "Share", "fraction"),
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


def outs_section(outs: tuple[WayOut, ...]) -> Section:
    """What to change so that it fits."""
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


def knobs_section(q: MemoryQuestion, plan: MemoryPlan) -> Section:
    """What each of the four knobs would change."""
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
