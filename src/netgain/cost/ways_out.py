"""What to change so that a model fits: the cheapest changes, each one computed to fit."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, TypeAlias

from netgain.cost.layout import Layout
from netgain.cost.memory import (
    MemoryPlan,
    MemoryQuestion,
    largest_model_len,
    plan_memory,
    with_serving,
)
from netgain.cost.model_shape import StateAttention
from netgain.cost.precision import Covers, KVFormat, WeightFormat, kv_format, weight_format
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device, Family, Precision

_PCIE_DOMAIN: Final = 8


class _Kind(Enum):
    UTILISATION = auto()
    SMALLER_STEPS = auto()
    LENGTH = auto()
    KV = auto()
    FEWER = auto()
    SHORTER = auto()
    WEIGHTS = auto()
    BOTH = auto()
    MORE_DEVICES = auto()
    OTHER_DEVICE = auto()


_PARTS: Final = {_Kind.BOTH: (_Kind.KV, _Kind.WEIGHTS)}
_Candidate: TypeAlias = tuple[_Kind, str, str, MemoryQuestion]


@dataclass(frozen=True, slots=True)
class WayOut:
    """One change that makes it fit: what to do, what it costs, and the question it leads to."""

    change: str
    costs: str
    question: MemoryQuestion
    plan: MemoryPlan


def ways_out(
    question: MemoryQuestion, others: Sequence[Device] = (), most: int = 3
) -> tuple[WayOut, ...]:
    """The `most` cheapest changes after which everything wanted fits.

    From cheap to dear: knobs, narrower keys and values, less traffic, narrower weights, both
    together, more devices of this kind, another device out of `others`. Of each kind the cheapest
    one; a second of a kind only where fewer than `most` kinds help. Kinds of change that do not
    help are left out, so fewer may come back.
    """
    first: list[tuple[int, WayOut]] = []
    again: list[tuple[int, WayOut]] = []
    seen: set[_Kind] = set()
    for place, (kind, change, costs, candidate) in enumerate(_candidates(question, others)):
        plan = plan_memory(candidate)
        if not (plan.fits and plan.starts):
            continue
        # Two changes where one of them is enough are a second of its kind.
        known = {kind, *_PARTS.get(kind, ())} & seen
        (again if known else first).append((place, WayOut(change, costs, candidate, plan)))
        seen.add(kind)
        if len(first) == most:
            break
    chosen = first + again[: most - len(first)]
    return tuple(way for _, way in sorted(chosen, key=lambda numbered: numbered[0]))


def fewest_devices(question: MemoryQuestion, device: Device | None = None) -> Layout | None:
    """The smallest layout on which it fits: tensor parallel inside a domain, stages beyond it.

    Of two with as many devices the one with more tensor parallelism, where a fabric joins them;
    without one, the one with less. None where even a stage per layer is too large, and for SRAM
    machines, over which a compiler spreads a model in its own way (`chips_for_one_model`).
    """
    on = device or question.device
    if on.family is Family.SRAM:
        return None
    domain = on.scale_up.domain if on.scale_up else _PCIE_DOMAIN
    sizes = _tensor_sizes(question, min(domain, 64))
    best: Layout | None = None
    for tp in reversed(sizes) if on.scale_up else sizes:
        for pp in _stage_counts(question.shape.layers):
            layout = Layout(tp=tp, pp=pp, dp=question.layout.dp)
            if best is not None and layout.devices >= best.devices:
                break
            candidate = replace(question, device=on, layout=layout)
            plan = plan_memory(candidate)
            if plan.fits and plan.starts:
                best = layout
                break
    return best


def _candidates(q: MemoryQuestion, others: Sequence[Device]) -> Iterator[_Candidate]:
    yield from _knobs(q)
    narrow_kv = _narrower_kv(q)
    for kv, cost in narrow_kv:
        yield (
            _Kind.KV,
            f"keep keys and values in {kv.name} (--kv-dtype {kv.name})",
            cost,
            replace(q, kv=kv),
        )
    yield from _less_traffic(q)
    narrow_weights = _narrower_weights(q)
    for weights, cost in narrow_weights:
        yield (
            _Kind.WEIGHTS,
            f"keep weights in {weights.name} (--weights {weights.name})",
            cost,
            replace(q, weights=weights),
        )
    for weights, cost in narrow_weights[:2]:
        for kv, _ in narrow_kv[:1]:
            yield (
                _Kind.BOTH,
                f"weights in {weights.name} and keys and values in {kv.name} "
                f"(--weights {weights.name} --kv-dtype {kv.name})",
                f"{cost}; narrower keys and values too",
                replace(q, weights=weights, kv=kv),
            )
    yield from _more_devices(q)
    yield from _other_devices(q, others)


def _knobs(q: MemoryQuestion) -> Iterator[_Candidate]:
    serving = q.serving
    if serving.utilisation < 0.95:
        yield (
            _Kind.UTILISATION,
            "use more of the memory (--utilisation 0.95)",
            "less margin for what was assumed: watch the peak",
            with_serving(q, replace(serving, utilisation=0.95)),
        )
    for tokens in (4096, 2048, 1024, 512):
        if q.sequences <= tokens < serving.max_batched_tokens:
            yield (
                _Kind.SMALLER_STEPS,
                f"smaller steps (--max-batched-tokens {tokens})",
                "long prompts take more steps: a later first token",
                with_serving(q, replace(serving, max_batched_tokens=tokens)),
            )
    longest = largest_model_len(q)
    if q.tokens <= longest < q.max_model_len:
        yield (
            _Kind.LENGTH,
            f"a shorter longest sequence (--max-model-len {longest})",
            f"requests beyond {longest:,} tokens are refused",
            with_serving(q, replace(serving, max_model_len=longest)),
        )
    if q.max_model_len < q.tokens:
        yield (
            _Kind.LENGTH,
            f"admit the length that is wanted (--max-model-len {q.tokens})",
            "fewer short sequences fit beside a long one",
            with_serving(q, replace(serving, max_model_len=q.tokens)),
        )


def _narrower_kv(q: MemoryQuestion) -> list[tuple[KVFormat, str]]:
    stateful = all(isinstance(g.attention, StateAttention) for g in q.shape.groups)
    if stateful or q.kv.bytes <= 1:
        return []
    kv = kv_format("fp8" if Precision.FP8 in q.device.rates else "int8")
    share = "half" if q.kv.bytes == 2 else "a quarter of"
    return [(kv, f"{share} the bytes; measure quality, and short contexts may get slower")]


def _less_traffic(q: MemoryQuestion) -> Iterator[_Candidate]:
    plan = plan_memory(q)
    fit = min(plan.capacity_sequences, q.sequences)
    if 0 < fit < q.sequences:
        yield (
            _Kind.FEWER,
            f"fewer sequences at once (--batch {fit})",
            f"the other {q.sequences - fit} wait: longer queues, lower throughput",
            replace(q, sequences=fit),
        )
    one = replace(q, sequences=1, serving=replace(q.serving, max_model_len=None))
    longest = largest_model_len(replace(one, tokens=q.shape.max_positions))
    if longest and longest < q.tokens:
        yield (
            _Kind.SHORTER,
            f"one sequence of at most {longest:,} tokens (--batch 1 --kv-length {longest})",
            "longer sequences are refused",
            replace(one, tokens=longest),
        )


def _narrower_weights(q: MemoryQuestion) -> list[tuple[WeightFormat, str]]:
    if q.weights.covers is Covers.EXPERTS:
        return []
    eight = "fp8" if Precision.FP8 in q.device.rates else "int8"
    costs = {eight: "little quality: measure it", "int4": "some quality: measure it on your task"}
    return [
        (weight_format(name), cost)
        for name, cost in costs.items()
        if weight_format(name).bits < q.weights.bits - 0.5
    ]


def _more_devices(q: MemoryQuestion) -> Iterator[_Candidate]:
    layout = fewest_devices(q)
    if layout is None or layout.devices <= q.layout.devices:
        return
    joined = "collectives in every layer" if layout.tp > 1 else "stages that wait for each other"
    yield (
        _Kind.MORE_DEVICES,
        f"{layout.devices} x {q.device.name} ({_flags(layout)})",
        f"{layout.devices - q.layout.devices} more, and {joined}",
        replace(q, layout=layout),
    )


def _other_devices(q: MemoryQuestion, others: Sequence[Device]) -> Iterator[_Candidate]:
    """Larger devices that hold it alone, the same vendor's first; else the fewest of any."""
    accelerators = sorted(
        (d for d in others if d.family is not Family.CPU and d.name != q.device.name),
        key=lambda d: (d.vendor != q.device.vendor, d.memory_bytes.value),
    )
    software = q.device.software
    single = replace(q, layout=replace(q.layout, tp=1, pp=1, ep=1))
    sizes: set[float] = set()
    for device in accelerators:
        candidate = replace(single, device=device)
        if device.memory_bytes.value in sizes or not plan_memory(candidate).fits:
            continue
        sizes.add(device.memory_bytes.value)
        moves = f"; software moves to {device.software}" if device.software != software else ""
        yield (
            _Kind.OTHER_DEVICE,
            f"one {device.name} (--on {device.name})",
            f"another device{moves}",
            candidate,
        )
    if sizes:
        return
    fits = [
        (layout.devices, place, device, layout)
        for place, device in enumerate(accelerators)
        if (layout := fewest_devices(q, device)) is not None
    ]
    for count, _, device, layout in sorted(fits, key=lambda fit: fit[:2])[:3]:
        yield (
            _Kind.OTHER_DEVICE,
            f"{count} x {device.name} (--on {device.name} {_flags(layout)})",
            f"{count} of another device, joined",
            replace(q, device=device, layout=layout),
        )


def _flags(layout: Layout) -> str:
    sizes = (("tp", layout.tp), ("pp", layout.pp), ("dp", layout.dp))
    return " ".join(f"--{name} {size}" for name, size in sizes if size > 1)


def _tensor_sizes(q: MemoryQuestion, at_most: int) -> list[int]:
    sizes = []
    for tp in (1, 2, 4, 8, 16, 32, 64):
        if tp > at_most:
            break
        try:
            Layout(tp=tp).check(q.shape)
        except ConfigurationError:  # more ranks than heads
            break
        even = all(Layout(tp=tp).is_even(group.attention) for group in q.shape.groups)
        if even or tp == 1:
            sizes.append(tp)
    return sizes


def _stage_counts(layers: int) -> list[int]:
    """Counts that change how many layers the fullest stage holds, up to a layer a stage."""
    fullest: dict[int, int] = {}
    for stages in range(1, layers + 1):
        fullest.setdefault(math.ceil(layers / stages), stages)
    return list(fullest.values())
