"""Can a published number be true: what the weights, the arithmetic and the memory allow.

A floor is what nobody can beat: every weight a step meets is read once at the full bandwidth of all
devices together, every multiplication runs at the full dense rate. What lies beyond a floor is
impossible; what needs more than nineteen twentieths of it, or is ten times slower than expected, is
suspicious: mislabelled more often than true.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from netgain.cost.kv_bytes import kv_bytes_per_sequence, kv_bytes_per_token
from netgain.cost.layout import ONE_DEVICE
from netgain.cost.model_shape import LatentAttention, ModelShape
from netgain.cost.operations import Stored, step_operations, unavoidable_bytes
from netgain.cost.precision import KV_FORMATS, KVFormat, WeightFormat
from netgain.cost.roofline import RooflineModel
from netgain.cost.step_work import Slices, StepWork
from netgain.cost.weights import weight_bytes
from netgain.errors import ConfigurationError
from netgain.hardware.device import Device, Precision

_SUSPICIOUS_SHARE: Final = 0.95
_SUSPICIOUSLY_SLOW: Final = 10.0
_ROUNDING: Final = 1.005
_NARROW_BITS: Final = 12
_FOUR_BIT_BITS: Final = 6
_UNKNOWN_ACCEPTED: Final = 8.0
_KV_TOLERANCE: Final = 0.05


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
    them holds. `tokens_per_s` counts all sequences together, `tokens_per_s_each` one of them.
    `accept_length` is tokens per verification, the bonus token included; `speculative` says that
    drafts were used at all. `tflops` is a dense rate claimed for the device itself.
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
    tpot_s: float | None = None
    prefill_tokens_per_s: float | None = None
    accept_length: float | None = None
    speculative: bool = False
    kv_bytes_per_token: float | None = None
    tflops: float | None = None
    tflops_precision: Precision = Precision.BF16

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for numbers that claim nothing."""
        for name in (
            "devices", "batch", "context", "tokens_per_s", "tokens_per_s_each", "tpot_s",
            "prefill_tokens_per_s", "kv_bytes_per_token", "tflops",
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise ConfigurationError(f"{name} is {value:g}: a claim needs a number above 0")
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
        ("time per token", claim.tpot_s, "{:.6g} s"),
        ("prefill tokens per second", claim.prefill_tokens_per_s, "{:,.6g}"),
        ("accept length", claim.accept_length, "{:g} tokens a step"),
        ("KV bytes per token", claim.kv_bytes_per_token, "{:,.8g}"),
        ("device rate", claim.tflops, "{:,.6g} TFLOPS " + claim.tflops_precision.value),
    ):
        if value is not None:
            said[name] = shown.format(value)
    if claim.speculative and claim.accept_length is None:
        said["speculation"] = f"yes; up to {_UNKNOWN_ACCEPTED:g} tokens a step are allowed for"
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


@dataclass(frozen=True, slots=True)
class Floor:
    """The least a step can take: `bytes` at full bandwidth, or `flops` at the full rate."""

    bytes: float
    memory_s: float
    compute_s: float

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(self.memory_s, self.compute_s)


def step_floor(
    shape: ModelShape, device: Device, stored: Stored, work: StepWork, devices: int = 1
) -> Floor:
    """The least a step can take on `devices` together, however it is laid out.

    Activations may stay on the chip, and reading may overlap all arithmetic. Narrow weights may be
    multiplied at the fastest rate the device has for them. What fits into the last cache of the
    devices is read at that cache's bandwidth, where it is known.
    """
    whole = Stored(stored.weights, stored.kv, ONE_DEVICE, stored.expert_skew)
    moved = unavoidable_bytes(shape, whole, work)
    compute_s = sum(
        op.flops / _fastest_flop_s(device, op.precision, stored.weights.bits)
        for op in step_operations(shape, whole, work)
    )
    memory_s = moved / device.bandwidth_bytes_s.value
    for level in device.levels:
        if moved <= level.size_bytes.value * devices:
            bandwidth = level.bandwidth_bytes_s
            memory_s = 0.0 if bandwidth is None else moved / bandwidth.value
    return Floor(moved, memory_s / devices, compute_s / devices)


def _fastest_flop_s(device: Device, precision: Precision, weight_bits: float) -> float:
    rates = [device.rate(precision)[1].dense.value]
    if weight_bits < _NARROW_BITS:
        narrow = {Precision.FP8, Precision.INT8}
        if weight_bits < _FOUR_BIT_BITS:
            narrow.add(Precision.FP4)
        rates += [rate.dense.value for known, rate in device.rates.items() if known in narrow]
    return max(rates)


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
    checker = _Checker(claim, claim.shape, claim.device, claim.weights, claim.kv or KV_FORMATS[1])
    yield checker.fits()
    if claim.tpot_s is not None:
        yield checker.token_time(claim.tpot_s, "tpot")
    if claim.tokens_per_s_each is not None:
        yield checker.token_time(1.0 / claim.tokens_per_s_each, "tokens per second of a sequence")
    if claim.tokens_per_s is not None:
        yield checker.throughput(claim.tokens_per_s)
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
                claim.tokens_per_s or claim.tokens_per_s_each or claim.tpot_s
                or claim.prefill_tokens_per_s or claim.kv_bytes_per_token or claim.tflops,
            ),
        )
        if there is None
    ]  # fmt: skip
    return f"the claim cannot be checked: it lacks {', and '.join(lacking)}"


@dataclass(frozen=True, slots=True)
class _Checker:
    claim: Claim
    shape: ModelShape
    device: Device
    weights: WeightFormat
    kv: KVFormat

    @property
    def stored(self) -> Stored:
        return Stored(self.weights, self.kv)

    @property
    def accepted(self) -> float:
        if self.claim.accept_length is not None:
            return self.claim.accept_length
        return _UNKNOWN_ACCEPTED if self.claim.speculative else 1.0

    def fits(self) -> Finding:
        memory = self.device.memory_bytes.value * self.claim.devices
        weights = weight_bytes(self.shape, self.weights)
        one = kv_bytes_per_sequence(self.shape, self.claim.context, self.kv)
        kv = (self.claim.batch or 1) * one
        verdict = Verdict.IMPOSSIBLE if weights + kv > memory else Verdict.POSSIBLE
        share = (weights + kv) / memory
        return Finding(
            "memory",
            verdict,
            f"weights and keys and values {'do not fit' if verdict else 'fit'}: "
            f"{share:.0%} of {self._devices}",
            f"{weights / 1e9:.2f} GB of weights ({self.weights.name}) + {kv / 1e9:.3f} GB of keys "
            f"and values against {self.claim.devices} x "
            f"{self.device.memory_bytes.value / 1e9:.2f} GB",
        )

    def token_time(self, seconds: float, name: str) -> Finding:
        """Seconds between tokens of one sequence."""
        batch = self.claim.batch or 1
        floor = step_floor(
            self.shape, self.device, self.stored, self._work(batch), self.claim.devices
        )
        accepted = self.accepted
        least = floor.seconds / accepted
        return self._judged(
            name,
            share=least / seconds,
            slowdown=seconds / (self._expected(batch) / accepted),
            faster=f"{seconds * 1e3:.3g} ms per token is less than the {least * 1e3:.3g} ms that "
            f"{self._reading(floor)} takes",
            possible=f"{seconds * 1e3:.3g} ms per token; the floor is {least * 1e3:.3g} ms "
            f"({least / seconds:.0%} of the roof)",
            arithmetic=self._arithmetic(floor, batch, accepted),
        )

    def throughput(self, tokens_per_s: float) -> Finding:
        """Tokens per second of all sequences together."""
        if self.claim.batch is None:
            return self._any_batch(tokens_per_s)
        batch, accepted = self.claim.batch, self.accepted
        floor = step_floor(
            self.shape, self.device, self.stored, self._work(batch), self.claim.devices
        )
        most = batch * accepted / floor.seconds
        expected = batch * accepted / self._expected(batch)
        return self._judged(
            "tokens per second",
            share=tokens_per_s / most,
            slowdown=expected / tokens_per_s,
            faster=f"{tokens_per_s:,.4g} tokens/s is more than the {most:,.4g} that "
            f"{self._reading(floor)} allows",
            possible=f"{tokens_per_s:,.4g} tokens/s of at most {most:,.4g}",
            arithmetic=f"{self._arithmetic(floor, batch, accepted)}; {batch} sequences x "
            f"{accepted:g} tokens / {floor.seconds * 1e3:.3g} ms = {most:,.4g} tokens/s",
        )

    def _any_batch(self, tokens_per_s: float) -> Finding:
        """No batch was said: the arithmetic of one token bounds any of them."""
        per_token_s = self._compute_s(StepWork((Slices(1, 1, self.claim.context),)))
        most = self.claim.devices / per_token_s
        return self._judged(
            "tokens per second",
            share=tokens_per_s / most,
            slowdown=0.0,
            faster=f"{tokens_per_s:,.4g} tokens/s is more than the {most:,.4g} that the arithmetic "
            f"of {self._devices} allows at any batch",
            possible=f"{tokens_per_s:,.4g} tokens/s of at most {most:,.4g} at any batch; say the "
            "batch for a sharper check",
            arithmetic=f"{self.claim.devices} devices / {per_token_s * 1e6:.4g} us of "
            "multiplications per token at the dense peak",
        )

    def prefill(self, tokens_per_s: float) -> Finding:
        """Prompt tokens per second."""
        tokens = max(self.claim.context, 1)
        # The output head is applied to one row of a prompt, however long it is.
        work = StepWork((Slices(1, tokens),)) if tokens > 1 else StepWork((Slices(1, 2048),))
        counted = sum(part.new for part in work.slices)
        most = counted / self._compute_s(work) * self.claim.devices
        return self._judged(
            "prefill tokens per second",
            share=tokens_per_s / most,
            slowdown=most * 0.5 / tokens_per_s,
            faster=f"{tokens_per_s:,.4g} prompt tokens/s is more than the {most:,.4g} that the "
            f"dense peak of {self._devices} allows",
            possible=f"{tokens_per_s:,.4g} prompt tokens/s of at most {most:,.4g}",
            arithmetic=f"{counted} tokens / {counted / most:.4g} s of multiplications at the dense "
            "peak",
        )

    def _judged(
        self, name: str, *, share: float, slowdown: float, faster: str, possible: str,
        arithmetic: str,
    ) -> Finding:  # fmt: skip
        if share > _ROUNDING:
            return Finding(name, Verdict.IMPOSSIBLE, f"{faster}{self._narrower()}", arithmetic)
        if share > _SUSPICIOUS_SHARE:
            said = f"{possible}: {share:.0%} of the roof is more than kernels reach"
            return Finding(name, Verdict.SUSPICIOUS, said, arithmetic)
        if slowdown > _SUSPICIOUSLY_SLOW:
            said = f"{possible}: {slowdown:.0f} times slower than expected, a smaller batch perhaps"
            return Finding(name, Verdict.SUSPICIOUS, said, arithmetic)
        return Finding(name, Verdict.POSSIBLE, possible, arithmetic)

    def _narrower(self) -> str:
        """What a number beyond the floor usually is."""
        if self.weights.bits >= 16:
            return "; weights in 8 or 4 bits, or a mislabelled run, would explain it"
        return ""

    def _reading(self, floor: Floor) -> str:
        if floor.memory_s >= floor.compute_s:
            return f"reading {floor.bytes / 1e9:.4g} GB at the full bandwidth of {self._devices}"
        return f"multiplying at the dense peak of {self._devices}"

    def _arithmetic(self, floor: Floor, batch: int, accepted: float) -> str:
        bandwidth = self.device.bandwidth_bytes_s.value / 1e12 * self.claim.devices
        drafts = f", {accepted:g} tokens accepted per step" if accepted > 1 else ""
        return (
            f"a step of {batch} reads {floor.bytes / 1e9:.4g} GB / {bandwidth:.4g} TB/s = "
            f"{floor.memory_s * 1e3:.3g} ms; multiplications {floor.compute_s * 1e3:.3g} ms{drafts}"
        )

    def _work(self, batch: int) -> StepWork:
        # A step cannot accept more than it verifies, nor verify less than a token a sequence.
        verified = max(1, int(self.accepted))
        return StepWork((Slices(batch, verified, self.claim.context, verified),))

    def _compute_s(self, work: StepWork) -> float:
        return step_floor(self.shape, self.device, self.stored, work).compute_s

    def _expected(self, batch: int) -> float:
        model = RooflineModel(self.shape, self.device, self.stored)
        return model.seconds(self._work(batch)) / self.claim.devices

    @property
    def _devices(self) -> str:
        return f"{self.claim.devices} x {self.device.name}"


def _kv_arithmetic(shape: ModelShape, kv: KVFormat | None, claimed: float) -> Finding:
    formats = KV_FORMATS if kv is None else (kv,)
    sizes = {fmt.name: kv_bytes_per_token(shape, fmt) for fmt in formats}
    near = [n for n, size in sizes.items() if abs(claimed - size) <= _KV_TOLERANCE * size]
    real = kv_bytes_per_token(shape, kv or KV_FORMATS[1])
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
            f"{_expanded_bytes(shape):,} B"
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


def _device_rate(device: Device, precision: Precision, tflops: float) -> Finding:
    computes_in, rate = device.rate(precision)
    dense = rate.dense.value / 1e12
    arithmetic = f"{device.name} {computes_in.value}: {dense:,.4g} TFLOPS dense" + (
        f", {rate.quoted.value / 1e12:,.4g} as quoted" if rate.quoted else ""
    )
    share = tflops / dense
    if 0.9 <= share <= 1.1:
        said = f"{tflops:,.4g} TFLOPS is {device.name}'s dense {computes_in.value} rate"
        return Finding("device rate", Verdict.POSSIBLE, said, arithmetic)
    if rate.quoted and abs(tflops / (rate.quoted.value / 1e12) - 1) <= 0.02:
        said = f"{tflops:,.4g} TFLOPS is the quoted rate, with sparsity: dense is {dense:,.4g}"
        return Finding("device rate", Verdict.SUSPICIOUS, said, arithmetic)
    if share > 1.1:
        said = f"{tflops:,.4g} TFLOPS is above the dense peak of {dense:,.4g}"
        return Finding("device rate", Verdict.IMPOSSIBLE, said, arithmetic)
    said = (
        f"{tflops:,.4g} TFLOPS is {share:.0%} of the dense matrix rate of {dense:,.4g}: a vector "
        "rate, or another device"
    )
    verdict = Verdict.SUSPICIOUS if share >= 0.3 else Verdict.IMPOSSIBLE
    return Finding("device rate", verdict, said, arithmetic)
