"""`netgain plan spec`: what speculation gains at each depth and batch, and where it turns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from netgain.cost.bounds import at_least_zero, count, fraction
from netgain.cost.intensity import critical_tokens
from netgain.cost.kv_bytes import kv_bytes_per_token
from netgain.cost.layout import ONE_DEVICE
from netgain.cost.model_shape import ModelShape
from netgain.cost.planner.setup import Setup
from netgain.cost.planner.step_words import step_words
from netgain.cost.precision import WeightFormat
from netgain.cost.roofline import RooflineModel
from netgain.cost.speculation import (
    IterationTimes,
    acceptance_for,
    acceptance_of,
    acceptance_per_token,
    batch_speed_up,
    best_depth,
    break_even_acceptance,
    break_even_batch,
    gain_exists,
    gaining_batches,
    rejected_tokens,
    residual,
    tokens_per_iteration,
    tokens_per_iteration_measured,
)
from netgain.cost.step_work import decode, verify
from netgain.cost.weights import weight_bytes
from netgain.errors import ConfigurationError
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Figure,
    Form,
    Report,
    Section,
    Series,
    Table,
)

BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
_DEEPEST: Final = 128
_PADDED_ROWS: Final = 1024
_LEVIATHAN: Final = "Leviathan et al., arXiv 2211.17192"


@dataclass(frozen=True, slots=True)
class SpecQuestion:
    """A target, a drafter, and the traffic.

    The drafter is a model (`draft`, `draft_weights`) whose steps are timed on the same device, or
    a `draft_ratio`: one drafted token's time over a plain step's, at every batch (heads: some
    hundredths, n-gram: about 0). `conditional` is measured acceptance per position and overrides
    `acceptance`. `over_s` is what an iteration costs on top.
    """

    setup: Setup
    acceptance: float = 0.7
    depth: int = 4
    batch: int = 1
    context_tokens: int = 1024
    draft_ratio: float = 0.05
    draft: ModelShape | None = None
    draft_weights: WeightFormat | None = None
    conditional: tuple[float, ...] = ()
    over_s: float = 0.0
    batches: tuple[int, ...] = BATCHES
    deepest: int = 8

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for shares outside 0..1 and sizes below 1."""
        fraction("acceptance", self.acceptance)
        for position, rate in enumerate(self.conditional):
            fraction(f"acceptance at position {position}", rate)
        count("depth", self.depth)
        count("batch", self.batch)
        count("context", self.context_tokens)
        count("deepest", self.deepest)
        if max(self.depth, self.deepest) > _DEEPEST:
            raise ConfigurationError(f"depth is {self.depth:,}: give 1 to {_DEEPEST} drafts")
        at_least_zero("draft_ratio", self.draft_ratio)
        at_least_zero("over_s", self.over_s)
        for batch in self.batches:
            count("batch", batch)
        # A few padded rows are common; another tokenizer is another matter.
        if self.draft is not None and abs(self.draft.vocab - self.setup.shape.vocab) > _PADDED_ROWS:
            raise ConfigurationError(
                f"{self.draft.name} has {self.draft.vocab:,} tokens in its vocabulary and "
                f"{self.setup.shape.name} {self.setup.shape.vocab:,}: a drafter needs the "
                "target's tokenizer"
            )

    def tokens(self, depth: int) -> float:
        """E at this depth: from measured positions where there are some, else independent."""
        if not self.conditional:
            return tokens_per_iteration(self.acceptance, depth)
        known = list(self.conditional[:depth])
        return tokens_per_iteration_measured(known + known[-1:] * (depth - len(known)))


def _measured_words(conditional: tuple[float, ...], depth: int) -> str:
    """`1 + 0.8 + 0.8 x 0.7`: positions beyond the measured ones are as the last of these."""
    known = list(conditional[:depth])
    rates = known + known[-1:] * (depth - len(known))
    products = (" x ".join(f"{rate:g}" for rate in rates[:end]) for end in range(1, depth + 1))
    return " + ".join(["1", *products])


def acceptance_of_length(accepted_tokens: float, depth: int) -> float:
    """The acceptance per draft at which `accepted_tokens` of `depth` drafts are kept on average.

    Raises `ConfigurationError` for a length outside 0..depth.
    """
    if not 0 <= accepted_tokens <= count("depth", depth):
        raise ConfigurationError(
            f"accepted length is {accepted_tokens:g}: give 0 to {depth}, the drafts of an "
            "iteration, without the target's own token"
        )
    return acceptance_for(accepted_tokens + 1.0, depth)


class _Times:
    """Times of iterations, each step computed once."""

    def __init__(self, question: SpecQuestion) -> None:
        self._q = question
        self._target = question.setup.steps()
        self._draft = self._drafter()
        self._known: dict[tuple[int, int], IterationTimes] = {}

    def plain_words(self, batch: int) -> str:
        """A plain step as a sum."""
        return step_words(self._target.estimate(decode(batch, self._q.context_tokens)))

    def verify_words(self, batch: int, depth: int) -> str:
        """A verification as a sum."""
        return step_words(self._target.estimate(verify(batch, self._q.context_tokens, depth)))

    def of(self, batch: int, depth: int) -> IterationTimes:
        key = (batch, depth)
        if key not in self._known:
            context = self._q.context_tokens
            plain = self._target.seconds(decode(batch, context))
            scored = self._target.seconds(verify(batch, context, depth))
            if self._draft is not None:
                drafted = self._draft.seconds(decode(batch, context))
            else:
                drafted = self._q.draft_ratio * plain
            self._known[key] = IterationTimes(plain, drafted, scored, self._q.over_s)
        return self._known[key]

    def gain(self, batch: int, depth: int) -> float:
        return batch_speed_up(self._q.tokens(depth), depth, self.of(batch, depth))

    def at_depth(self, depth: int) -> Callable[[int], float]:
        """S(B) of this depth."""
        return lambda batch: self.gain(batch, depth)

    def _drafter(self) -> RooflineModel | None:
        q = self._q
        if q.draft is None:
            return None
        weights = q.draft_weights or q.setup.weights
        return replace(
            q.setup, shape=q.draft, weights=weights, measured=None, topology=None,
            layout=ONE_DEVICE,
        ).steps()  # fmt: skip


def plan_spec(question: SpecQuestion) -> Report:
    """Gain per depth and batch, its new costs, and where it loses."""
    times = _Times(question)
    gains = {d: times.gain(question.batch, d) for d in range(1, question.deepest + 1)}
    best, gain = max([(0, 1.0), *gains.items()], key=lambda pair: pair[1])
    turn = break_even_batch(times.at_depth(question.depth))
    asked = gains.get(question.depth) or times.gain(question.batch, question.depth)
    sections = (
        _asked(question, times, best, gain),
        _grid(question, times),
        _costs(question, times),
        _loses(question, times, turn),
        _rule(),
    )
    each = times.of(question.batch, question.depth)
    verdict = [_answer(question, best, gain, asked, each.draft_s / each.decode_s)]
    first = next(iter(gaining_batches(times.at_depth(question.depth))), 1)
    if first > 1:
        verdict.append(
            f"Depth {question.depth} loses below a batch of about {first}: verifying few tokens "
            "meets more experts than decoding them."
        )
    if turn is not None:
        verdict.append(
            f"Depth {question.depth} turns into a loss from batch {turn} on at context "
            f"{question.context_tokens}: a fixed depth for all loads is wrong."
        )
    return Report(
        title=f"Speculative decoding for {question.setup.shape.name}",
        sections=sections,
        verdict=tuple(verdict),
        warnings=_warnings(question),
        context=question.setup.context()
        | {
            "drafter": question.draft.name if question.draft else f"ratio {question.draft_ratio:g}",
            "batch": question.batch,
            "context_tokens": question.context_tokens,
        },
    )


def _answer(
    question: SpecQuestion, best: int, gain: float, asked: float, draft_ratio: float
) -> str:
    at = f"At batch {question.batch}"
    if best == 0:
        said = (
            f"{at} no depth gains: leave speculation off (depth {question.depth} would be "
            f"{asked:.2f} times as fast)."
        )
        if question.conditional or gain_exists(question.acceptance, draft_ratio):
            return said
        return (
            f"{said} None can: acceptance {question.acceptance:.3g} is not above the "
            f"{draft_ratio:.3g} plain steps that a draft takes."
        )
    said = f"{at} depth {best} is best: {gain:.2f} times the output tokens per second"
    if best == question.depth:
        return said + "."
    return f"{said}; depth {question.depth}, as asked, gives {asked:.2f}."


def _asked(question: SpecQuestion, times: _Times, best: int, gain: float) -> Section:
    depth, batch = question.depth, question.batch
    tokens = question.tokens(depth)
    each = times.of(batch, depth)
    ratio = each.step_ratio(depth)
    speed = batch_speed_up(tokens, depth, each)
    least = break_even_acceptance(depth, ratio)
    basis, source = question.setup.basis, question.setup.source
    a = question.acceptance
    formula = (
        _measured_words(question.conditional, depth)
        if question.conditional
        else f"(1 - {a:g}^{depth + 1}) / (1 - {a:g})"
        if a < 1
        else f"{depth} + 1"
    )
    tokens_basis = Basis.MEASURED if question.conditional else Basis.ASSUMED
    plain_itl = each.decode_s
    itl = each.iteration_s(depth) / tokens
    return Section(
        f"Depth {depth} at batch {batch}",
        figures=(
            Figure("tokens_per_iteration", "Tokens per iteration (E)", tokens, "tokens",
                   tokens_basis, f"{formula} = {tokens:.4f}", _LEVIATHAN),
            Figure("plain_step_s", "Plain step", plain_itl, "s", basis,
                   times.plain_words(batch), source),
            Figure("draft_step_s", "One drafted token of every sequence", each.draft_s, "s",
                   basis,
                   "" if question.draft
                   else f"{question.draft_ratio:g} x {each.decode_s * 1e3:.4g} ms",
                   source if question.draft else "the draft ratio"),
            Figure("verify_s", f"Verification of {depth + 1} positions", each.verify_s, "s",
                   basis, times.verify_words(batch, depth), source),
            Figure("step_ratio", "Iteration over plain step", ratio, "ratio", basis,
                   f"({depth} x {each.draft_s * 1e3:.4g} + {each.verify_s * 1e3:.4g} + "
                   f"{each.over_s * 1e3:.4g}) / {each.decode_s * 1e3:.4g} ms", _LEVIATHAN),
            Figure("speed_up", "Speed-up S(B)", speed, "ratio", basis,
                   f"E / ratio = {tokens:.4g} / {ratio:.4g}", _LEVIATHAN),
            Figure("itl_s", "Mean time per token with it", itl, "s", basis,
                   f"{each.iteration_s(depth) * 1e3:.4g} ms / {tokens:.4g}", source),
            Figure("break_even_acceptance", "Acceptance below which it loses", least, "fraction",
                   basis, f"E(a) = {ratio:.4g}" if least is not None
                   else f"no acceptance reaches {ratio:.4g} tokens", _LEVIATHAN),
            Figure("best_depth", "Best depth here (0: off)", best, "", basis,
                   f"largest of S for 0..{question.deepest}", source),
            Figure("best_speed_up", "Speed-up at the best depth", gain, "ratio", basis,
                   f"E / ratio at depth {best} = {question.tokens(best):.4g} / "
                   f"{times.of(batch, best).step_ratio(best):.4g}" if best else "off: plain steps",
                   source),
        ),
        text=(
            "Acceptance alone ranks nothing: it falls with depth by arithmetic, and a slow drafter "
            "with a high rate loses.",
        ),
    )  # fmt: skip


def _grid(question: SpecQuestion, times: _Times) -> Section:
    basis = question.setup.basis
    depths = range(1, question.deepest + 1)
    rows: list[Mapping[str, Cell]] = []
    for batch in question.batches:
        gains = {depth: times.gain(batch, depth) for depth in depths}
        best = max([(0, 1.0), *gains.items()], key=lambda pair: pair[1])
        rows.append(
            {"batch": batch, "best": best[0], "gain": best[1]}
            | {f"k{depth}": gains[depth] for depth in depths}
        )
    by_acceptance = []
    for tenth in range(3, 10):
        a = tenth / 10
        depth, gain = best_depth(a, question.deepest, lambda k: times.of(question.batch, k))
        by_acceptance.append({"acceptance": a, "best": depth, "gain": gain})
    series = tuple(
        Series(f"depth {d}", list(question.batches), [times.gain(b, d) for b in question.batches])
        for d in sorted({1, 2, question.depth, question.deepest})
    )
    return Section(
        "By depth and batch",
        tables=(
            Table(
                "speed_up_by_batch",
                "Speed-up over plain steps",
                (
                    Column("batch", "Batch", "", Basis.EXACT),
                    *(Column(f"k{d}", f"K={d}", "ratio", basis) for d in depths),
                    Column("best", "Best K", "", basis),
                    Column("gain", "Gain", "ratio", basis),
                ),
                tuple(rows),
            ),
            Table(
                "best_depth_by_acceptance",
                f"Best depth by acceptance, at batch {question.batch}",
                (
                    Column("acceptance", "Acceptance", "fraction", Basis.EXACT),
                    Column("best", "Best K", "", basis),
                    Column("gain", "Gain", "ratio", basis),
                ),
                tuple(by_acceptance),
            ),
        ),
        charts=(
            Chart(
                "speed_up",
                "Speed-up by batch",
                Axis("Batch", log=True),
                Axis("Speed-up"),
                (
                    *series,
                    Series("off", [question.batches[0], question.batches[-1]], [1.0, 1.0]),
                ),
            ),
        ),
    )


def _costs(question: SpecQuestion, times: _Times) -> Section:
    depth, batch = question.depth, question.batch
    each = times.of(batch, depth)
    wasted = depth + 1 - question.tokens(depth)
    thrown = wasted if question.conditional else rejected_tokens(question.acceptance, depth)
    basis, source = question.setup.basis, question.setup.source
    figures = [
        Figure("draft_time_s", "Drafting, per iteration", depth * each.draft_s, "s", basis,
               f"{depth} x {each.draft_s * 1e3:.4g} ms", source),
        Figure("extra_verify_s", "Verification above a plain step, per iteration",
               each.verify_s - each.decode_s, "s", basis,
               f"{each.verify_s * 1e3:.4g} - {each.decode_s * 1e3:.4g} ms", source),
        Figure("rejected_tokens", "Drafts thrown away per iteration and sequence", thrown, "tokens",
               Basis.MEASURED if question.conditional else Basis.ASSUMED,
               f"{depth} - {depth - thrown:.4g} accepted", _LEVIATHAN),
        Figure("rejected_s", "Time they took, per iteration",
               thrown / depth * (depth * each.draft_s)
               + thrown / (depth + 1) * max(0.0, each.verify_s - each.decode_s),
               "s", basis,
               f"{thrown:.4g} x {each.draft_s * 1e3:.4g} ms drafting + {thrown:.4g} / {depth + 1} "
               f"x {max(0.0, each.verify_s - each.decode_s) * 1e3:.4g} ms of extra verification",
               source),
    ]  # fmt: skip
    if question.draft is not None:
        weights = question.draft_weights or question.setup.weights
        taken = weight_bytes(question.draft, weights)
        per_token = kv_bytes_per_token(question.draft, question.setup.kv)
        target = kv_bytes_per_token(question.setup.shape, question.setup.kv)
        lost = taken / (target + per_token)
        figures += [
            Figure("draft_weight_bytes", "The drafter's weights", taken, "bytes", Basis.EXACT,
                   f"{question.draft.parameters:,} parameters in {weights.name}",
                   question.draft.source),
            Figure("draft_kv_bytes_per_token", "The drafter's KV", per_token, "bytes/token",
                   Basis.EXACT, "", question.draft.source),
            Figure("kv_capacity_lost", "KV capacity its weights take", lost, "tokens", Basis.EXACT,
                   f"{taken:,} B / ({target:,} + {per_token:,} B per token)", ""),
        ]  # fmt: skip
    return Section("What it costs", figures=tuple(figures))


def _loses(question: SpecQuestion, times: _Times, turn: int | None) -> Section:
    saturated = max(question.batches)
    asked = times.gain(saturated, question.depth)
    basis, source = question.setup.basis, question.setup.source
    device, weights = question.setup.device, question.setup.weights
    experts = question.setup.shape.experts
    chosen = experts.top_k / experts.experts if experts else 1.0
    rate = device.rate(weights.computes_in)[1].dense.value
    bandwidth = device.bandwidth_bytes_s.value
    ridge = critical_tokens(rate, bandwidth, weights.bytes, chosen)
    of_experts = f" x {experts.experts} / {experts.top_k} experts" if experts else ""
    return Section(
        "When it loses",
        text=(
            "Prefill or queue dominated traffic gains nothing; short outputs little; a drafter "
            "that takes KV capacity shrinks the batch.",
            "Published: on Llama-3-70B 1.5 times at 1 request/s and 1.4 times slower at high rates "
            "(vLLM); EAGLE-3 with K = 4 on an 8B: 68 instead of 173 requests/s at saturation.",
        ),
        figures=(
            Figure("break_even_batch", f"Batch from which depth {question.depth} loses", turn, "",
                   basis, "from here on S(B) <= 1" if turn is not None
                   else "S(B) stays above 1 up to 16,384", source),
            Figure("ridge_tokens", "Tokens a step at which arithmetic overtakes reading weights",
                   ridge, "tokens", Basis.ASSUMED,
                   f"{rate / 1e12:,.4g} TFLOPS x {weights.bytes:.4g} B / (2 x "
                   f"{bandwidth / 1e12:.4g} TB/s){of_experts}",
                   f"peaks; a batch verifies {question.depth + 1} tokens a sequence"),
            Figure("saturated_speed_up", f"Speed-up at batch {saturated}", asked, "ratio", basis,
                   f"E / ratio = {question.tokens(question.depth):.4g} / "
                   f"{times.of(saturated, question.depth).step_ratio(question.depth):.4g}", source),
        ),
    )  # fmt: skip


def _rule() -> Section:
    """Why the text stays the target's, on the smallest example."""
    target, draft = (0.5, 0.5), (0.8, 0.2)
    kept = acceptance_per_token(target, draft)
    rejected = 1.0 - acceptance_of(target, draft)
    redrawn = residual(target, draft)
    rows = tuple(
        {
            "token": token,
            "why": f"drafted {q:.3g} x accepted min(1, {p:g} / {q:g}) = {rate:.4g}, and rejected "
            f"{rejected:.3g} x redrawn {again:.3g}: {q * rate + rejected * again:.3g} in all, as "
            f"the target says ({p:g})",
        }
        for token, p, q, rate, again in zip("AB", target, draft, kept, redrawn, strict=True)
    )
    return Section(
        "Why the distribution stays the target's",
        tables=(
            Table(
                "acceptance_rule",
                "Two tokens, target 0.5 and 0.5, drafter 0.8 and 0.2",
                (Column("token", "Token"), Column("why", "How often it comes out")),
                rows,
                Form.NOTES,
            ),
        ),
    )


def _warnings(question: SpecQuestion) -> tuple[str, ...]:
    found: list[str] = []
    if not question.conditional:
        found.append(
            f"Acceptance {question.acceptance:g} at every position is assumed: measured rates fall "
            "with position and differ by workload; give --conditional from a run"
        )
    if question.setup.shape.experts is not None:
        found.append(
            "A mixture of experts: verification touches more experts than a plain step, and real "
            "drafts agree in theirs more than uniform routing assumes"
        )
    return tuple(found)
