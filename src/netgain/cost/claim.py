"""Can a published number be true: what the weights, the arithmetic and the memory allow.

A floor is what nobody can beat: every weight a step meets is read once at the full bandwidth of all
devices together, every multiplication runs at the full dense rate. What lies beyond a floor is
impossible; what needs more than nineteen twentieths of it, or is ten times slower than expected, is
suspicious: mislabelled more often than true.

What a claim leaves unsaid is read in its favour before it is called impossible: keys and values of
8 bits, and tokens that all meet the same experts. What only such a reading allows is suspicious.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from netgain.cost.floors import Floor, step_floor, with_experts_alike
from netgain.cost.kv_bytes import kv_bytes_per_sequence, kv_bytes_per_token
from netgain.cost.model_shape import LatentAttention, ModelShape
from netgain.cost.operations import Stored
from netgain.cost.precision import KV_FORMATS, Covers, KVFormat, WeightFormat, kv_format
from netgain.cost.roofline import RooflineModel
from netgain.cost.step_work import Slices, StepWork
from netgain.cost.weights import weight_bytes
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device, Precision
from netgain.report.units import number

_SUSPICIOUS_SHARE: Final = 0.95
_SUSPICIOUSLY_SLOW: Final = 10.0
_ROUNDING: Final = 1.005
_UNKNOWN_ACCEPTED: Final = 8.0
_UNBOUNDED_BATCH: Final = 1 << 20
_USUAL_PROMPT: Final = 2048
_FOUR_BIT_BITS: Final = 6
_KV_TOLERANCE: Final = 0.05
_PLAIN_KV: Final = kv_format("bf16")
_NARROW_KV: Final = kv_format("fp8")


class Verdict(IntEnum):
    """From good to bad, so that the worst of several is their maximum."""

    POSSIBLE = 0
    SUSPICIOUS = 1
    IMPOSSIBLE = 2

    @property
    def word(self) -> str:
        """As it is printed."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Claim:
    """What somebody says a model does on some devices. None: not said.

    `batch` is the most sequences at once that the claim allows, `context` the fewest tokens each of
    them holds. `tokens_per_s` counts all sequences together, `tokens_per_s_each` one of them,
    `undrafted_tokens_per_s` all together with speculation off.
    `accept_length` is tokens per verification, the bonus token included; `speculative` says that
    drafts were used at all. `tflops` is a dense rate claimed for the device itself. `prefix_cached`
    says that contexts may come from a cache and be shared by sequences, `cached_share` how much of
    a prompt does; `offloaded` that some weights lie outside the devices.
    """

    device: Device | None = None
    shape: ModelShape | None = None
    weights: WeightFormat | None = None
    kv: KVFormat | None = None
    devices: int = 1
    batch: int | None = None
    context: int = 1
    tokens_per_s: float | None = None
    tokens_per_s_each: float | None = None
    undrafted_tokens_per_s: float | None = None
    tpot_s: float | None = None
    ttft_s: float | None = None
    prefill_tokens_per_s: float | None = None
    prefix_cached: bool = False
    cached_share: float | None = None
    offloaded: bool = False
    accept_length: float | None = None
    speculative: bool = False
    kv_bytes_per_token: float | None = None
    tflops: float | None = None
    tflops_precision: Precision = Precision.BF16

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for numbers that claim nothing."""
        for name in (
            "devices", "batch", "context", "tokens_per_s", "tokens_per_s_each",
            "undrafted_tokens_per_s", "tpot_s",
            "ttft_s", "prefill_tokens_per_s", "kv_bytes_per_token", "tflops",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ConfigurationError(f"{name} is {value:g}: a claim needs a number above 0")
        if self.cached_share is not None and not 0.0 <= self.cached_share < 1.0:
            raise ConfigurationError(
                f"cached share is {self.cached_share:g}: give 0 to below 1, something is always new"
            )
        if self.accept_length is not None and not 1.0 <= self.accept_length < 1e4:
            raise ConfigurationError(
                f"accept length is {self.accept_length:g}: it counts the bonus token, so 1 or more"
            )


def described(claim: Claim) -> dict[str, str]:
    """What a claim says, in words: shown back, so that a misreading is seen."""
    said: dict[str, str] = {}
    if claim.shape is not None:
        said["model"] = claim.shape.name
    if claim.weights is not None:
        said["weights"] = claim.weights.name
    if claim.kv is not None:
        said["keys and values"] = claim.kv.name
    if claim.device is not None:
        said["devices"] = f"{claim.devices} x {claim.device.name}"
    if claim.batch is not None:
        said["batch"] = f"up to {claim.batch}"
    if claim.context > 1:
        said["context"] = f"{claim.context:,} tokens"
    for name, value, shown in (
        ("tokens per second", claim.tokens_per_s, "{:,.6g}"),
        ("tokens per second of a sequence", claim.tokens_per_s_each, "{:,.6g}"),
        ("tokens per second without drafts", claim.undrafted_tokens_per_s, "{:,.6g}"),
        ("time per token", claim.tpot_s, "{:.6g} s"),
        ("time to first token", claim.ttft_s, "{:.6g} s"),
        ("prefill tokens per second", claim.prefill_tokens_per_s, "{:,.6g}"),
        ("share of the prompt from a cache", claim.cached_share, "{:.1%}"),
        ("accept length", claim.accept_length, "{:g} tokens a step"),
        ("KV bytes per token", claim.kv_bytes_per_token, "{:,.8g}"),
        ("device rate", claim.tflops, "{:,.6g} TFLOPS " + claim.tflops_precision.value),
    ):
        if value is not None:
            said[name] = shown.format(value)
    if claim.speculative and claim.accept_length is None:
        said["speculation"] = f"yes; up to {_UNKNOWN_ACCEPTED:g} tokens a step are allowed for"
    if claim.prefix_cached and claim.cached_share is None:
        said["prefix cache"] = "yes; contexts may be shared, and any part of a prompt cached"
    if claim.offloaded:
        said["offload"] = "yes; some weights lie outside the devices"
    return said


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: how it came out, in a sentence, with the arithmetic behind it."""

    name: str
    verdict: Verdict
    statement: str
    arithmetic: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """All findings; the verdict is the worst of them."""

    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst finding's."""
        return max((finding.verdict for finding in self.findings), default=Verdict.POSSIBLE)


def check_claim(claim: Claim) -> Judgement:
    """Every check that the claim says enough for.

    Raises `ConfigurationError` where it says too little for any, naming what is missing.
    """
    findings = tuple(_findings(claim))
    if not findings:
        raise ConfigurationError(_missing(claim))
    return Judgement(findings)


def _findings(claim: Claim) -> Iterator[Finding]:
    if claim.shape is not None and claim.kv_bytes_per_token is not None:
        yield _kv_arithmetic(claim.shape, claim.kv, claim.kv_bytes_per_token)
    if claim.device is not None and claim.tflops is not None:
        yield _device_rate(claim.device, claim.tflops_precision, claim.tflops)
    if claim.shape is None or claim.device is None or claim.weights is None:
        return
    checker = _Checker(claim, claim.shape, claim.device, claim.weights)
    yield checker.fits()
    if claim.tpot_s is not None:
        yield checker.token_time(claim.tpot_s, "tpot")
    if claim.tokens_per_s_each is not None:
        yield checker.token_time(1.0 / claim.tokens_per_s_each, "tokens per second of a sequence")
    if claim.undrafted_tokens_per_s is not None:
        plain = replace(checker, claim=replace(claim, speculative=False, accept_length=None))
        yield plain.throughput(claim.undrafted_tokens_per_s, "tokens per second without drafts")
    if claim.tokens_per_s is not None:
        yield checker.throughput(claim.tokens_per_s, "tokens per second")
    if claim.ttft_s is not None:
        yield checker.first_token(claim.ttft_s)
    if claim.prefill_tokens_per_s is not None:
        yield checker.prefill(claim.prefill_tokens_per_s)


def _missing(claim: Claim) -> str:
    lacking = [
        what
        for what, there in (
            ("a model (--model)", claim.shape),
            ("a device (--on)", claim.device),
            (
                "a number: --tok-s, --tpot-ms, --prefill-tok-s, --kv-bytes-per-token or --tflops",
                claim.tokens_per_s or claim.tokens_per_s_each or claim.tpot_s or claim.ttft_s
                or claim.undrafted_tokens_per_s
                or claim.prefill_tokens_per_s or claim.kv_bytes_per_token or claim.tflops,
            ),
        )
        if there is None
    ]  # fmt: skip
    return f"the claim cannot be checked: it lacks {', and '.join(lacking)}"


@dataclass(frozen=True, slots=True)
class _Bound:
    """What share of a limit a claim takes, read plainly and in its favour.

    `floor` is the one that speaks: the favoured reading's where even that is passed.
    """

    floor: Floor
    share: float
    favoured_share: float


@dataclass(frozen=True, slots=True)
class _Checker:
    claim: Claim
    shape: ModelShape
    device: Device
    weights: WeightFormat

    @property
    def plain(self) -> Stored:
        """What was said; 16-bit keys and values and uniform routing where nothing was."""
        return Stored(self.weights, self.claim.kv or _PLAIN_KV)

    @property
    def favoured(self) -> Stored:
        """The storage and routing that read least, within what was said."""
        weights = replace(self.weights, covers=Covers.ALL) if self._head_unsaid else self.weights
        return with_experts_alike(Stored(weights, self.claim.kv or _NARROW_KV))

    @property
    def _head_unsaid(self) -> bool:
        """Whether "4 bit" may mean the output head too: kernels differ."""
        return self.weights.covers is Covers.LINEAR and self.weights.bits < _FOUR_BIT_BITS

    @property
    def accepted(self) -> float:
        if self.claim.accept_length is not None:
            return self.claim.accept_length
        return _UNKNOWN_ACCEPTED if self.claim.speculative else 1.0

    def fits(self) -> Finding:
        """Weights, and keys and values of all sequences, against the devices' memory."""
        memory = self.device.memory_bytes.value * self.claim.devices
        weights = weight_bytes(self.shape, self.weights)
        kv = self._kv_bytes(self.plain.kv)
        share = (weights + kv) / memory
        arithmetic = (
            f"{weights / 1e9:.2f} GB of weights ({self.weights.name}) + {kv / 1e9:.3f} GB of keys "
            f"and values against {self.claim.devices} x "
            f"{self.device.memory_bytes.value / 1e9:.2f} GB"
        )
        if share <= 1:
            said = f"weights and keys and values fit: {share:.0%} of {self._devices}"
            return Finding("memory", Verdict.POSSIBLE, said, arithmetic)
        said = f"weights and keys and values do not fit: {share:.0%} of {self._devices}"
        if self.claim.offloaded:
            said += "; offloaded to a host of which the claim says nothing"
            return Finding("memory", Verdict.POSSIBLE, said, arithmetic)
        if weights + self._kv_bytes(self.favoured.kv) <= memory:
            said += f"; with keys and values in {self.favoured.kv.name} they would"
            return Finding("memory", Verdict.SUSPICIOUS, said, arithmetic)
        return Finding("memory", Verdict.IMPOSSIBLE, said, arithmetic)

    def token_time(self, seconds: float, name: str) -> Finding:
        """Seconds between tokens of one sequence."""
        batch, accepted = self.claim.batch or 1, self.accepted
        bound = self._bound(self._work(batch), accepted * seconds)
        least = bound.floor.seconds / accepted
        return self._judged(
            name,
            bound,
            slowdown=self._slowdown(batch, accepted * seconds),
            faster=f"{seconds * 1e3:.3g} ms per token is less than the {least * 1e3:.3g} ms that "
            f"{self._reading(bound.floor)} takes",
            possible=f"{seconds * 1e3:.3g} ms per token; the floor is {least * 1e3:.3g} ms "
            f"({least / seconds:.0%} of the roof)",
            arithmetic=self._arithmetic(bound.floor, batch, accepted),
        )

    def throughput(self, tokens_per_s: float, name: str) -> Finding:
        """Tokens per second of all sequences together."""
        batch, accepted = self.claim.batch or self._largest_batch(), self.accepted
        step_s = batch * accepted / tokens_per_s
        bound = self._bound(self._work(batch), step_s)
        most = batch * accepted / bound.floor.seconds
        at = "" if self.claim.batch else f" at a batch of {batch:,}, the most that memory holds"
        return self._judged(
            name,
            bound,
            slowdown=self._slowdown(batch, step_s),
            faster=f"{number(tokens_per_s)} tokens/s is more than the {number(most)} that "
            f"{self._reading(bound.floor)} allows{at}",
            possible=f"{number(tokens_per_s)} tokens/s of at most {number(most)}{at}",
            arithmetic=f"{self._arithmetic(bound.floor, batch, accepted)}; {batch:,} sequences x "
            f"{accepted:g} tokens / {bound.floor.seconds * 1e3:.3g} ms = {number(most)} tokens/s",
        )

    def first_token(self, seconds: float) -> Finding:
        """Seconds to the first token of one prompt on idle devices."""
        work = self._prompt(self.claim.context)
        bound = self._bound(work, seconds)
        least = bound.floor.seconds
        return self._judged(
            "time to first token",
            bound,
            slowdown=0.0,
            faster=f"{seconds * 1e3:.3g} ms to the first token is less than the "
            f"{least * 1e3:.3g} ms that {self._reading(bound.floor)} takes",
            possible=f"{seconds * 1e3:.3g} ms to the first token; the floor is "
            f"{least * 1e3:.3g} ms",
            arithmetic=f"{work.tokens:,} tokens to prefill: {bound.floor.bytes / 1e9:.4g} GB read "
            f"in {bound.floor.memory_s * 1e3:.3g} ms, multiplications "
            f"{bound.floor.compute_s * 1e3:.3g} ms",
        )

    def prefill(self, tokens_per_s: float) -> Finding:
        """Prompt tokens per second, those from a cache included."""
        counted = self.claim.context if self.claim.context > 1 else _USUAL_PROMPT
        cached = self.claim.cached_share or 0.0
        # The output head is applied to one row of a prompt, however long it is.
        floor = step_floor(
            self.shape, self.device, self.plain, StepWork((Slices(1, counted),)),
            self.claim.devices,
        )  # fmt: skip
        most = counted / floor.compute_s / (1.0 - cached)
        share = tokens_per_s / most
        name = "prefill tokens per second"
        arithmetic = (
            f"{counted:,} tokens / {floor.compute_s:.4g} s of multiplications at the dense peak"
        )
        if cached:
            arithmetic += f" / (1 - {cached:.3g} from the cache)"
        if share > _ROUNDING and self.claim.prefix_cached and self.claim.cached_share is None:
            said = (
                f"{number(tokens_per_s)} prompt tokens/s needs a cache that holds at least "
                f"{1 - 1 / share:.0%} of them: {number(most)} can be computed"
            )
            return Finding(name, Verdict.SUSPICIOUS, said, arithmetic)
        return self._judged(
            name,
            _Bound(floor, share, share),
            slowdown=most * 0.5 / tokens_per_s,
            faster=f"{number(tokens_per_s)} prompt tokens/s is more than the {number(most)} that "
            f"the dense peak of {self._devices} allows",
            possible=f"{number(tokens_per_s)} prompt tokens/s of at most {number(most)}",
            arithmetic=arithmetic,
        )

    def _judged(
        self, name: str, bound: _Bound, *, slowdown: float, faster: str, possible: str,
        arithmetic: str,
    ) -> Finding:  # fmt: skip
        if bound.favoured_share > _ROUNDING:
            if self.claim.offloaded:
                said = f"{faster}; a host that computes beside the devices would have to explain it"
                return Finding(name, Verdict.SUSPICIOUS, said, arithmetic)
            return Finding(name, Verdict.IMPOSSIBLE, f"{faster}{self._narrower()}", arithmetic)
        if bound.share > _ROUNDING:
            said = f"{faster}; {self._explanation()} would explain it"
            return Finding(name, Verdict.SUSPICIOUS, said, arithmetic)
        if bound.share > _SUSPICIOUS_SHARE:
            said = f"{possible}: {bound.share:.0%} of the roof is more than kernels reach"
            return Finding(name, Verdict.SUSPICIOUS, said, arithmetic)
        if slowdown > _SUSPICIOUSLY_SLOW:
            said = f"{possible}: {slowdown:.0f} times slower than expected, a smaller batch perhaps"
            return Finding(name, Verdict.SUSPICIOUS, said, arithmetic)
        return Finding(name, Verdict.POSSIBLE, possible, arithmetic)

    def _bound(self, work: StepWork, seconds: float) -> _Bound:
        """What shares of `seconds` the floors of `work` take."""
        read = self._read(work)
        plain, favoured = (
            step_floor(self.shape, self.device, stored, work, self.claim.devices, read)
            for stored in (self.plain, self.favoured)
        )
        share, favoured_share = plain.seconds / seconds, favoured.seconds / seconds
        return _Bound(favoured if favoured_share > _ROUNDING else plain, share, favoured_share)

    def _narrower(self) -> str:
        """What a number beyond the floor usually is."""
        if self.weights.bits >= 16:
            return "; weights in 8 or 4 bits, or a mislabelled run, would explain it"
        return ""

    def _explanation(self) -> str:
        """What the favoured reading takes for granted beyond the plain one."""
        causes = []
        if self.claim.kv is None and self.claim.context > 1:
            causes.append(f"keys and values in {_NARROW_KV.name}")
        if self._head_unsaid:
            causes.append("an output head of as few bits")
        if self.shape.experts is not None:
            causes.append("tokens that meet the same experts")
        return " or ".join(causes) or "another reading"

    def _reading(self, floor: Floor) -> str:
        if floor.memory_s >= floor.compute_s:
            return f"reading {floor.bytes / 1e9:.4g} GB at the full bandwidth of {self._devices}"
        return f"multiplying at the dense peak of {self._devices}"

    def _arithmetic(self, floor: Floor, batch: int, accepted: float) -> str:
        bandwidth = self.device.bandwidth_bytes_s.value / 1e12 * self.claim.devices
        drafts = f", {accepted:g} tokens accepted per step" if accepted > 1 else ""
        return (
            f"a step of {batch:,} reads {floor.bytes / 1e9:.4g} GB / {bandwidth:.4g} TB/s = "
            f"{floor.memory_s * 1e3:.3g} ms; multiplications {floor.compute_s * 1e3:.3g} ms{drafts}"
        )

    def _work(self, batch: int) -> StepWork:
        # A step cannot accept more than it verifies, nor verify less than a token a sequence.
        verified = max(1, int(self.accepted))
        return StepWork((Slices(batch, verified, self.claim.context, verified),))

    def _prompt(self, tokens: int) -> StepWork:
        """What of a prompt has to be computed: at least its last token."""
        share = self.claim.cached_share
        if share is None:
            share = 1.0 if self.claim.prefix_cached else 0.0
        cached = min(tokens - 1, int(tokens * share))
        return StepWork((Slices(1, tokens - cached, cached),))

    def _read(self, work: StepWork) -> StepWork:
        """The work whose bytes count: a context that sequences may share is read once."""
        (part,) = work.slices
        if not self.claim.prefix_cached or part.sequences == 1 or not part.cached:
            return work
        others = Slices(part.sequences - 1, part.new, 0, part.logits)
        return StepWork((Slices(1, part.new, part.cached, part.logits), others))

    def _kv_bytes(self, kv: KVFormat) -> int:
        """Keys and values of all sequences; of one where a cached context may be shared."""
        one = kv_bytes_per_sequence(self.shape, self.claim.context, kv)
        return one if self.claim.prefix_cached else (self.claim.batch or 1) * one

    def _largest_batch(self) -> int:
        """The most sequences that memory could hold, read in the claim's favour; at least 1."""
        if self.claim.prefix_cached or self.claim.offloaded:
            return _UNBOUNDED_BATCH
        memory = self.device.memory_bytes.value * self.claim.devices
        room = memory - weight_bytes(self.shape, self.weights)
        one = kv_bytes_per_sequence(self.shape, self.claim.context, self.favoured.kv)
        return max(1, int(room // one))

    def _slowdown(self, batch: int, step_s: float) -> float:
        """How many times longer a step took than expected; nothing where no batch was said."""
        if self.claim.batch is None or self.claim.offloaded:
            return 0.0
        model = RooflineModel(self.shape, self.device, self.plain)
        return step_s / (model.seconds(self._work(batch)) / self.claim.devices)

    @property
    def _devices(self) -> str:
        return f"{self.claim.devices} x {self.device.name}"


def _kv_arithmetic(shape: ModelShape, kv: KVFormat | None, claimed: float) -> Finding:
    formats = KV_FORMATS if kv is None else (kv,)
    sizes = {fmt.name: kv_bytes_per_token(shape, fmt) for fmt in formats}
    near = [n for n, size in sizes.items() if abs(claimed - size) <= _KV_TOLERANCE * size]
    real = kv_bytes_per_token(shape, kv or _PLAIN_KV)
    arithmetic = ", ".join(f"{name} {size:,} B" for name, size in sizes.items())
    if near:
        said = f"{claimed:,.6g} bytes per token is {shape.name}'s cache in {near[0]}"
        return Finding("kv bytes per token", Verdict.POSSIBLE, said, arithmetic)
    hint = ""
    for factor, mistake in ((1024, "KiB read as bytes"), (1000, "kB read as bytes")):
        if abs(claimed * factor - real) <= _KV_TOLERANCE * real:
            hint = hint or f": {mistake}"
    if shape.is_latent and claimed > 2 * max(sizes.values()):
        hint = (
            f": more than the latent; keys and values of all heads would be "
            f"{_expanded_bytes(shape):,} B, as wide as the model {_as_wide_bytes(shape):,} B"
        )
    said = f"{claimed:,.6g} bytes per token is not {shape.name}'s cache ({real:,} B){hint}"
    return Finding("kv bytes per token", Verdict.IMPOSSIBLE, said, arithmetic)


def _expanded_bytes(shape: ModelShape) -> int:
    """What a latent cache would take if every head's keys and values were stored, 16 bit."""
    return sum(
        2 * group.count * a.heads * (a.nope_dim + a.rope_dim + a.value_dim)
        for group in shape.groups
        if isinstance(a := group.attention, LatentAttention)
    )


def _as_wide_bytes(shape: ModelShape) -> int:
    """What presets assume that know nothing of latents: a key and a value of the model's width."""
    return 2 * 2 * shape.layers * shape.hidden


def _device_rate(device: Device, precision: Precision, tflops: float) -> Finding:
    computes_in, rate = device.rate(precision)
    dense = rate.dense.value / 1e12
    arithmetic = f"{device.name} {computes_in.value}: {number(dense)} TFLOPS dense" + (
        f", {number(rate.quoted.value / 1e12)} as quoted" if rate.quoted else ""
    )
    share = tflops / dense
    if 0.9 <= share <= 1.1:
        said = f"{number(tflops)} TFLOPS is {device.name}'s dense {computes_in.value} rate"
        return Finding("device rate", Verdict.POSSIBLE, said, arithmetic)
    if rate.quoted and abs(tflops / (rate.quoted.value / 1e12) - 1) <= 0.02:
        said = (
            f"{number(tflops)} TFLOPS is the quoted rate, with sparsity: dense is {number(dense)}"
        )
        return Finding("device rate", Verdict.SUSPICIOUS, said, arithmetic)
    if share > 1.1:
        said = f"{number(tflops)} TFLOPS is above the dense peak of {number(dense)}"
        return Finding("device rate", Verdict.IMPOSSIBLE, said, arithmetic)
    said = (
        f"{number(tflops)} TFLOPS is {share:.0%} of the dense matrix rate of {number(dense)}: a "
        "vector rate, or another device"
    )
    verdict = Verdict.SUSPICIOUS if share >= 0.3 else Verdict.IMPOSSIBLE
    return Finding("device rate", verdict, said, arithmetic)
