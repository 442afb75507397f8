"""Sections about the model alone: weights, keys and values, loading, what would hold it."""

from dataclasses import replace

from netgain.cost.kv_bytes import (
    kv_bytes_per_sequence,
    kv_bytes_per_token,
    kv_bytes_per_token_stored,
    kv_marginal_bytes_per_token,
    state_bytes,
)
from netgain.cost.layout import ONE_DEVICE
from netgain.cost.loading import LOAD_RANGES
from netgain.cost.memory import (
    chips_for_one_model,
)
from netgain.cost.model_shape import GroupedAttention, LatentAttention, ModelShape, StateAttention
from netgain.cost.planner.memory_ask import MemoryAsk, layout_text
from netgain.cost.precision import KVFormat
from netgain.cost.ways_out import fewest_devices
from netgain.cost.weights import (
    bytes_per_parameter,
    rule_of_thumb_bytes,
    weight_bytes,
    weight_bytes_by_part,
)
from netgain.hardware.device import Device, Family
from netgain.report.document import (
    Basis,
    Cell,
    Column,
    Figure,
    Section,
    Table,
)


def weights_section(ask: MemoryAsk) -> Section:
    """Parameters and bytes of weights, by part, beside the rules of thumb."""
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
        Column("share", "Share", "fraction", basis),
    )
    return Section(
        "Weights",
        figures=tuple(figures),
        tables=(Table("weights_by_part", "Weights by part", columns, rows),),
    )


def kv_section(ask: MemoryAsk) -> Section:
    """Bytes of keys and values: per token, of the traffic, of a group of ranks."""
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
                f"a latent cache has no heads to split, each rank holds all of it: "
                f"{ask.layout.tp} x {token:,} B"
                if shape.is_latent
                else f"a rank holds max(1, {shape.kv_heads} / {ask.layout.tp}) KV heads",
                "copies of a latent cache under tensor parallelism"
                if shape.is_latent
                else "head replication under tensor parallelism",
            )
        )  # fmt: skip
    return Section("Keys and values", figures=tuple(figures))


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


def holders_section(ask: MemoryAsk) -> Section:
    """The fewest devices of each kind that hold it."""
    rows: list[dict[str, Cell]] = []
    for device in ask.others:
        question = replace(ask, layout=ONE_DEVICE).question(device)
        if device.family is Family.SRAM:
            rows.append(_holder(device, chips_for_one_model(question), "spread by the compiler"))
            continue
        layout = fewest_devices(question)
        if layout is not None:
            rows.append(_holder(device, layout.devices, layout_text(layout)))
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


def loading_section(ask: MemoryAsk) -> Section:
    """How long the weights take from each place they may lie."""
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
