"""`netgain plan advise`: what to try first for what was seen, its new cost, and what it meets."""

from dataclasses import dataclass, replace
from typing import Final

from netgain.cost.bounds import count
from netgain.cost.first_hypothesis import (
    BASE_LEVERS,
    CHECK_ALSO,
    TRADE_OFF,
    Goal,
    Hypothesis,
    Situation,
    Technique,
    hypotheses,
)
from netgain.cost.planner.advise_interactions import interactions_of
from netgain.cost.planner.setup import Setup
from netgain.cost.roofline import Bound
from netgain.cost.step_work import decode
from netgain.hardware.device import Fabric
from netgain.report.document import Basis, Cell, Column, Figure, Report, Section, Table
from netgain.report.units import quantity

_SPEC_7: Final = "a table gives a hypothesis, a measurement a verdict"
_WEAK: Final = 0.3


@dataclass(frozen=True, slots=True)
class AdviseQuestion:
    """An engine over the devices one copy needs, and what was observed of it.

    What follows from model and device (devices per model, links, experts, what bounds a step) is
    filled in by `situation`; the rest of `seen` is taken as it is. `model` and `precision` are the
    words it was asked with, for the commands it names.
    """

    setup: Setup
    seen: Situation
    model: str
    precision: str | None = None
    goal: Goal | None = None
    prompt_tokens: int = 4096
    output_tokens: int = 256

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty traffic."""
        count("prompt_tokens", self.prompt_tokens)
        count("output_tokens", self.output_tokens)

    @property
    def context_tokens(self) -> int:
        """Mean context of a decode step."""
        return self.prompt_tokens + self.output_tokens // 2

    @property
    def situation(self) -> Situation:
        """What was seen, completed by what the catalogue and the step model know."""
        devices = self.setup.layout.devices
        scale_up = self.setup.device.scale_up
        step = self.setup.steps().estimate(decode(self.seen.decode_batch, self.context_tokens))
        return replace(
            self.seen,
            devices_per_model=devices,
            fast_links=scale_up is not None
            and scale_up.fabric is not Fabric.NONE
            and devices <= scale_up.domain,
            experts=self.setup.shape.experts is not None,
            step_bound_by_memory=step.bound is not Bound.COMPUTE,
        )


def plan_advise(q: AdviseQuestion) -> Report:
    """Ranked candidates, base levers before them, and how techniques change each other."""
    situation = q.situation
    ranked = hypotheses(situation)
    likely = [one for one in ranked if one.weight >= _WEAK]
    if likely:
        first = likely[0]
        verdict = (
            f"First to try: {first.technique}, because {first.because}. It brings: "
            f"{', '.join(first.check)}.",
            "This is a hypothesis from what you said: base levers come first, and only a trial "
            "gives a verdict.",
        )
    else:
        verdict = (
            "Nothing speaks for a technique by what was given.",
            "Base levers first; say more of what was seen (--queue-share, --interference, "
            "--repeated ...).",
        )
    sections = [_base(), _ranked(q, ranked), _known(q, situation)]
    if q.goal is not None:
        sections.append(_goal(q.goal))
    sections.append(_interactions(q))
    return Report(
        f"{q.setup.shape.name} on {q.setup.device.name}: what to try first?",
        tuple(sections),
        verdict,
        (),
        q.setup.context()
        | {
            "queue_share": situation.queue_share,
            "prefill_share": situation.prefill_share,
            "decode_share": situation.decode_share,
            "decode_batch": situation.decode_batch,
            "interference_share": situation.interference_share,
        },
    )


def _base() -> Section:
    return Section(
        "Before any technique",
        text=("Base levers change less and break less: try these first.",),
        tables=(
            Table(
                "base_levers",
                "Base levers",
                (
                    Column("lever", "Lever"),
                    Column("saves", "Saves"),
                    Column("costs", "Costs"),
                ),
                tuple(
                    {"lever": lever.name, "saves": lever.saves, "costs": lever.costs}
                    for lever in BASE_LEVERS
                ),
            ),
        ),
    )


def _ranked(q: AdviseQuestion, ranked: tuple[Hypothesis, ...]) -> Section:
    return Section(
        "Candidates",
        text=(
            "The likeliest first; the weight ranks and measures nothing. A candidate is worth a "
            "trial when its new cost, computed by the command below, leaves a gain.",
        ),
        tables=(
            Table(
                "candidates",
                "What was seen, and what may help",
                (
                    Column("technique", "Technique"),
                    Column("weight", "Weight", "", Basis.ASSUMED),
                    Column("because", "Because"),
                ),
                tuple(
                    {
                        "technique": one.technique.value,
                        "weight": one.weight,
                        "because": one.because,
                    }
                    for one in ranked
                ),
            ),
            Table(
                "new_costs",
                "What each would bring, to check",
                (Column("technique", "Technique"), Column("check", "New cost")),
                tuple(
                    {"technique": one.technique.value, "check": ", ".join(one.check)}
                    for one in ranked
                ),
            ),
            Table(
                "commands",
                "What computes it",
                (Column("technique", "Technique"), Column("command", "Command")),
                tuple(
                    {"technique": one.technique.value, "command": _command(q, one.technique)}
                    for one in ranked
                ),
            ),
        ),
    )


def _known(q: AdviseQuestion, situation: Situation) -> Section:
    step = q.setup.steps().estimate(decode(situation.decode_batch, q.context_tokens))
    basis, source = q.setup.basis, q.setup.source
    return Section(
        "What model and device say themselves",
        figures=(
            Figure("devices_per_model", "Devices that one copy needs", situation.devices_per_model,
                   "", Basis.ASSUMED, "weights, one sequence, activations and reserve",
                   "`netgain plan memory`"),
            Figure("fast_links", "Joined by more than PCIe", situation.fast_links, "",
                   Basis.ASSUMED, f"{q.setup.device.name}: "
                   + (q.setup.device.scale_up.link if q.setup.device.scale_up else "no scale-up "
                      "link"), "hardware catalogue"),
            Figure("decode_step_s", f"Decode step at batch {situation.decode_batch}", step.seconds,
                   "s", basis, f"context {q.context_tokens:,} each", source),
            Figure("decode_bound", "bound by", step.bound.value, "", basis,
                   f"{step.shares_s[step.bound] / step.seconds:.0%} of it", source),
        ),
    )  # fmt: skip


def _goal(goal: Goal) -> Section:
    return Section(
        f"For {goal.value}",
        text=(
            f"Check also: {', '.join(CHECK_ALSO[goal])}.",
            f"{', '.join(TRADE_OFF).capitalize()} are one trade-off: no trial may leave one out.",
        ),
    )


def _interactions(q: AdviseQuestion) -> Section:
    found = interactions_of(q.setup, q.seen.decode_batch, q.prompt_tokens, q.output_tokens)
    rows: list[dict[str, Cell]] = [
        {
            "techniques": " + ".join(one.techniques),
            "quantity": one.quantity,
            "before": quantity(one.before, one.unit),
            "after": quantity(one.after, one.unit),
            "times": one.after / one.before if one.before else None,
        }
        for one in found
    ]
    return Section(
        "Two at once",
        text=(
            "Techniques change each other's arithmetic: shares of a gain do not add up. With "
            "several on, take each against all but itself.",
            *(f"{' + '.join(one.techniques)}: {one.why}." for one in found),
        ),
        tables=(
            Table(
                "interactions",
                "What one does to the other, by this engine's step times",
                (
                    Column("techniques", "Techniques"),
                    Column("quantity", "Quantity"),
                    Column("before", "Before", "", Basis.ASSUMED),
                    Column("after", "After", "", Basis.ASSUMED),
                    Column("times", "Times", "ratio", Basis.ASSUMED),
                ),
                tuple(rows),
            ),
        ),
    )


def _command(q: AdviseQuestion, technique: Technique) -> str:
    device, layout = q.setup.device.name, q.setup.layout
    stored = f" --precision {q.precision}" if q.precision else ""
    tp = f" --tp {layout.tp}" if layout.tp > 1 else ""
    engine = f"{q.model} --on {device}{stored}{tp}"
    devices = max(2, layout.devices)
    divided = f"links {device} --devices {devices} --model {q.model}{stored}"
    cached = f"cache {engine} --prefix {q.seen.repeated_tokens}"
    batch = q.seen.decode_batch
    words = {
        Technique.SPECULATION: f"spec {engine} --batch {batch}",
        Technique.TENSOR_PARALLEL: divided,
        Technique.PIPELINE_PARALLEL: divided,
        Technique.EXPERT_PARALLEL: f"roofline {q.model} --on {device}{stored} --dp {devices} "
        f"--ep {devices}",
        Technique.DATA_PARALLEL: f"price {engine} --batch {batch} --rate 20",
        Technique.CHUNKED_PREFILL: f"chunk {engine} --batch {batch} --prompt {q.prompt_tokens}",
        Technique.SEPARATION: f"pd {engine} --prompt {q.prompt_tokens}",
        Technique.PREFIX_CACHE: cached,
        Technique.KV_TIERS: cached,
        Technique.CAG: f"knowledge {engine} --corpus 20000",
        Technique.QUEUE: f"price {engine} --batch {batch}",
    }
    return f"netgain plan {words[technique]}"
