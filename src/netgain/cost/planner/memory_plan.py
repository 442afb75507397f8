"""Does it fit: weights, keys and values, and what is left of a device."""

from collections.abc import Iterator
from dataclasses import dataclass

from netgain.cost.kv_bytes import kv_copies
from netgain.cost.memory import (
    Knob,
    MemoryPlan,
    MemoryQuestion,
    chips_for_one_model,
    largest_model_len,
    plan_memory,
)
from netgain.cost.planner.memory_ask import MemoryAsk, gib, layout_text, traffic_bytes
from netgain.cost.planner.memory_model import (
    holders_section,
    kv_section,
    loading_section,
    weights_section,
)
from netgain.cost.planner.memory_rank import knobs_section, outs_section, rank_section
from netgain.cost.ways_out import WayOut, ways_out
from netgain.cost.weights import (
    weight_bytes,
)
from netgain.errors import CapacityError, ConfigurationError
from netgain.hardware.device import Family
from netgain.report.document import (
    Cell,
    Report,
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
    sections = [weights_section(ask), kv_section(ask)]
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
        sections += [holders_section(ask), loading_section(ask)]
        total = weight_bytes(ask.shape, ask.weights) + traffic_bytes(ask)
        verdict: tuple[str, ...] = (
            f"{gib(total)} of weights and keys and values; say --on DEVICE to see whether they "
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
        "layout": layout_text(ask.layout),
    }
    sections.append(rank_section(question, plan))
    if outs:
        sections.append(outs_section(outs))
    if ask.device.family is not Family.SRAM:
        sections.append(knobs_section(question, plan))
    sections.append(loading_section(ask))
    title = f"{ask.shape.name} on {ask.layout.devices} x {ask.device.name}: does it fit?"
    return MemoryAnswer(Report(title, tuple(sections), verdict, tuple(warnings), context), failure)


def _verdict(
    q: MemoryQuestion, plan: MemoryPlan, outs: tuple[WayOut, ...]
) -> tuple[tuple[str, ...], CapacityError | None]:
    what = f"{q.shape.name} in {q.weights.name} on {q.layout.devices} x {q.device.name}"
    if plan.binding is Knob.MAX_MODEL_LEN:
        raise ConfigurationError(
            f"{what}: max model length {q.max_model_len:,} refuses sequences of {q.tokens:,} "
            f"tokens; raise --max-model-len to {q.tokens} or lower --kv-length"
        )
    if plan.fits and plan.starts and plan.runs < q.sequences:
        return (
            f"Memory holds it, but {plan.binding.value} lets only {plan.runs:,} of {q.sequences:,} "
            f"sequences run at once: the others wait.",
        ), None
    if plan.fits and plan.starts:
        return (
            f"It fits: {q.sequences} sequences of {q.tokens:,} tokens take "
            f"{gib(plan.kv_wanted_bytes)} of {gib(plan.kv_room_bytes)} of room on a rank; "
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
    copies = kv_copies(shape, q.layout)
    if copies is not None:
        yield f"{copies}."
    if plan.fits and q.serving.max_model_len is None and shape.max_positions > q.tokens:
        longest = largest_model_len(q)
        if longest < shape.max_positions:
            yield (
                f"An engine started with the model's own {shape.max_positions:,} tokens would not "
                f"start here: one sequence of at most {longest:,} fits (--max-model-len)."
            )
    if device.family is Family.SRAM:
        yield "An SRAM machine spreads one model over many chips: a single chip is shown."
