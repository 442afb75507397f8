"""`netgain plan price`: what tokens, good requests and tasks cost, and what they burn."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from netgain.cost.bounds import at_least_zero, count, fraction, positive
from netgain.cost.placement import described
from netgain.cost.planner.setup import Setup
from netgain.cost.price import (
    Fleet,
    dollars_per_good_request,
    dollars_per_million_tokens,
    dollars_per_task,
    joules_per_token,
    margin,
    power_dollars,
)
from netgain.cost.step_costs import prefill_s
from netgain.cost.step_work import decode
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

_FORMULA: Final = "devices x $/h / 3600 / tokens/s; R20 (DeepSeek, 24 hours) is its check"
ASSUMED_PRICE: Final = "assumed: no price is known"
_BATCHES: Final = tuple(1 << power for power in range(10))
_SHARES: Final = (0.1, 0.25, 0.5, 0.75, 1.0)
_HOUR_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class PriceQuestion:
    """Traffic, money and power. Lengths in tokens; `batch` sequences decode together in a replica.

    `rate_per_s` None: one replica, busy for `utilisation` of the time; otherwise as many replicas
    as carry it with each busy for `utilisation` at most. `spare_replicas` are paid and idle.
    `cached_tokens` of a prompt are found in a cache. `attainment` is the share of requests that
    meet every SLO. `tokens_per_s` is what one replica was measured to put out, if it was.
    `sold_at` is $ per million output tokens. `available` devices can be had. `price_source` says
    where the price of a device-hour comes from.
    """

    setup: Setup
    dollars_per_device_hour: float
    prompt_tokens: int = 1024
    output_tokens: int = 256
    batch: int = 32
    cached_tokens: int = 0
    rate_per_s: float | None = None
    utilisation: float = 0.6
    spare_replicas: int = 0
    attainment: float = 1.0
    calls_per_task: float = 10.0
    retries: float = 0.0
    watts_per_device: float | None = None
    site_overhead: float = 1.3
    dollars_per_kwh: float = 0.1
    tokens_per_s: float | None = None
    sold_at: float | None = None
    available: int | None = None
    price_source: str = "as given"

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty traffic, negative money, shares outside 0..1."""
        for name in ("prompt_tokens", "output_tokens", "batch"):
            count(name, getattr(self, name))
        count("cached_tokens", self.cached_tokens, least=0)
        count("spare_replicas", self.spare_replicas, least=0)
        if self.cached_tokens >= self.prompt_tokens:
            raise ConfigurationError(
                f"{self.cached_tokens} cached tokens of a prompt of {self.prompt_tokens}: at least "
                "one token has to be computed"
            )
        for name in ("rate_per_s", "watts_per_device", "tokens_per_s", "sold_at"):
            value = getattr(self, name)
            if value is not None:
                positive(name, value)
        for name in ("utilisation", "attainment"):
            positive(name, fraction(name, getattr(self, name)))
        for name in ("dollars_per_device_hour", "retries", "dollars_per_kwh"):
            at_least_zero(name, getattr(self, name))
        positive("calls_per_task", self.calls_per_task)
        if self.site_overhead < 1:
            raise ConfigurationError(
                f"site overhead {self.site_overhead:g}: a site draws at least what its machines do"
            )

    @property
    def context_tokens(self) -> int:
        """Mean context of a decode step."""
        return self.prompt_tokens + self.output_tokens // 2

    @property
    def basis(self) -> Basis:
        """What follows from the throughput."""
        return self.setup.basis if self.tokens_per_s is None else Basis.CALIBRATED

    @property
    def passes(self) -> int:
        """Batches at work in one replica: one for each stage and each data-parallel copy."""
        return self.setup.layout.pp * self.setup.layout.dp


@dataclass(frozen=True, slots=True)
class _Rates:
    """One replica at one batch: a step, a prefill, output tokens/s, share of time prefilling."""

    batch: int
    step_s: float
    prefill_s: float
    tokens_per_s: float
    prefill_share: float
    fits: bool


@dataclass(frozen=True, slots=True)
class _Sized:
    replicas: int
    busy: float
    fleet: Fleet


def plan_price(q: PriceQuestion) -> Report:
    """Cost per million tokens, per good request and per task, and power, as a report."""
    rates = _rates(q, q.batch)
    if q.tokens_per_s is not None:
        rates = replace(rates, tokens_per_s=q.tokens_per_s)
    sized = _size(q, rates)
    per_token = dollars_per_million_tokens(
        sized.fleet, rates.tokens_per_s * sized.replicas, sized.busy
    )
    requests_s = rates.tokens_per_s * sized.replicas / q.output_tokens
    per_request = dollars_per_good_request(sized.fleet, requests_s, q.attainment, sized.busy)
    per_task = dollars_per_task(per_request, q.calls_per_task, q.retries)
    sections = [
        _money(q, rates, sized, per_token, per_request, per_task),
        _power(q, rates, sized, per_token),
        *_tables(q, rates, sized),
    ]
    verdict = (
        f"${per_token:.3g} per million output tokens, ${per_request * 1e3:.3g} per thousand good "
        f"requests, ${per_task:.3g} per task of {q.calls_per_task:g} calls: "
        f"{sized.fleet.devices:g} x {q.setup.device.name}, busy {sized.busy:.0%} of the time.",
        "A price follows from a throughput: measure that (`netgain bench`) and give it with "
        "--tok-s."
        if q.tokens_per_s is None
        else "The throughput is the one you measured; the rest is arithmetic.",
    )
    return Report(
        f"{q.setup.shape.name} on {q.setup.device.name}: what does it cost?",
        tuple(sections),
        verdict,
        tuple(_warnings(q, rates, sized)),
        q.setup.context()
        | {
            "layout": described(q.setup.layout),
            "prompt_tokens": q.prompt_tokens,
            "output_tokens": q.output_tokens,
            "batch": q.batch,
            "dollars_per_device_hour": q.dollars_per_device_hour,
        },
    )


def _rates(q: PriceQuestion, batch: int) -> _Rates:
    """A closed loop: every sequence needs one prefill in `output_tokens` steps."""
    steps = q.setup.steps()
    step = steps.seconds(decode(batch, q.context_tokens))
    prefill = prefill_s(steps, q.cached_tokens, q.prompt_tokens - q.cached_tokens)
    each = prefill / q.output_tokens
    return _Rates(
        batch,
        step,
        prefill,
        q.passes * batch / (step + batch * each),
        batch * each / (step + batch * each),
        q.setup.memory(batch * q.passes, q.prompt_tokens + q.output_tokens).fits,
    )


def _size(q: PriceQuestion, rates: _Rates) -> _Sized:
    each = rates.tokens_per_s / q.output_tokens
    if q.rate_per_s is None:
        replicas, busy = 1, q.utilisation
    else:
        replicas = math.ceil(q.rate_per_s / (each * q.utilisation))
        busy = q.rate_per_s / (each * replicas)
    devices = q.setup.layout.devices
    fleet = Fleet(replicas * devices, q.dollars_per_device_hour, q.spare_replicas * devices)
    return _Sized(replicas, busy, fleet)


def _money(
    q: PriceQuestion,
    rates: _Rates,
    sized: _Sized,
    per_token: float,
    per_request: float,
    per_task: float,
) -> Section:
    fleet, basis = sized.fleet, q.basis
    tokens_s = rates.tokens_per_s * sized.replicas * sized.busy
    in_per_out = q.prompt_tokens / q.output_tokens
    fresh = (q.prompt_tokens - q.cached_tokens) / q.output_tokens
    at_work = dollars_per_million_tokens(
        Fleet(fleet.serving, q.dollars_per_device_hour), rates.tokens_per_s * sized.replicas
    )
    day = fleet.dollars(24)
    figures = [
        Figure("tokens_per_s", "One replica puts out", rates.tokens_per_s, "tokens/s",
               Basis.MEASURED if q.tokens_per_s else basis,
               "as given" if q.tokens_per_s else
               f"{q.passes} x {q.batch} / ({rates.step_s * 1e3:.4g} ms + {q.batch} x "
               f"{rates.prefill_s * 1e3:.4g} ms / {q.output_tokens})",
               "measured by whoever asks" if q.tokens_per_s else q.setup.source),
        Figure("dollars_per_device_hour", "A device-hour", q.dollars_per_device_hour, "$",
               Basis.ASSUMED, "", q.price_source),
        Figure("replicas", "Replicas", sized.replicas, "", basis,
               "one" if q.rate_per_s is None else
               f"ceil({q.rate_per_s:g} / ({rates.tokens_per_s / q.output_tokens:.4g} requests/s x "
               f"{q.utilisation:g}))", "rate / (rate of one x utilisation)"),
        Figure("devices", "Devices paid for", fleet.devices, "", basis,
               f"{fleet.serving:g} serving + {fleet.spare:g} spare", described(q.setup.layout)),
        Figure("utilisation", "Busy", sized.busy, "fraction", basis,
               "as given" if q.rate_per_s is None else
               f"{q.rate_per_s:g} requests/s / what {sized.replicas} replicas can",
               "idle time is paid for too"),
        Figure("dollars_per_million_output_tokens", "Per million output tokens", per_token, "$",
               basis, f"{fleet.devices:g} x ${q.dollars_per_device_hour:g}/h / 3600 / "
               f"{tokens_s:.4g} tokens/s x 1e6", _FORMULA),
        Figure("dollars_per_million_tokens", "Per million tokens, prompts counted",
               per_token / (1 + in_per_out), "$", basis,
               f"${per_token:.4g} / (1 + {q.prompt_tokens} / {q.output_tokens})", _FORMULA),
        Figure("dollars_of_prefill", "Of it per million prompt tokens computed",
               per_token * rates.prefill_share / fresh, "$", basis,
               f"{rates.prefill_share:.1%} of the time x ${per_token:.4g} / {fresh:.4g} per output "
               "token", "shared by device time"),
        Figure("dollars_of_decode", "and per million output tokens decoded",
               per_token * (1 - rates.prefill_share), "$", basis,
               f"{1 - rates.prefill_share:.1%} x ${per_token:.4g}", "shared by device time"),
        Figure("dollars_idle", "Paid for idle and spare devices, per million output tokens",
               per_token - at_work, "$", basis, f"${per_token:.4g} - ${at_work:.4g} when all serve "
               "all the time", _FORMULA),
        Figure("dollars_per_good_request", "Per request that met every SLO", per_request, "$",
               basis, f"${fleet.dollars_per_s * 3600:.4g}/h / 3600 / "
               f"({tokens_s / q.output_tokens:.4g} requests/s x {q.attainment:g})",
               "the bad ones are paid for by the good ones"),
        Figure("dollars_per_task", f"Per task of {q.calls_per_task:g} calls", per_task, "$", basis,
               f"${per_request:.4g} x {q.calls_per_task:g} x (1 + {q.retries:g} retries)",
               "an agent's task is many requests"),
        Figure("dollars_per_day", "Per day", day, "$", basis,
               f"{fleet.device_hours(24):g} device-hours x ${q.dollars_per_device_hour:g}",
               "all that is paid for, busy or not"),
    ]  # fmt: skip
    if q.sold_at is not None:
        figures.append(
            Figure("margin", "Profit over cost", margin(q.sold_at, per_token), "fraction", basis,
                   f"${q.sold_at:g} / ${per_token:.4g} - 1", "income / cost - 1")
        )  # fmt: skip
    return Section("Money", figures=tuple(figures))


def _power(q: PriceQuestion, rates: _Rates, sized: _Sized, per_token: float) -> Section:
    watts = _watts(q)
    if watts is None:
        return Section(
            "Power",
            text=(f"No power is known for {q.setup.device.name}: give --watts.",),
        )
    fact = q.setup.device.power_w
    source = "as given" if q.watts_per_device or fact is None else fact.cited
    drawn = watts * sized.fleet.devices
    site = drawn * q.site_overhead
    tokens_s = rates.tokens_per_s * sized.replicas * sized.busy
    joules = joules_per_token(site, tokens_s)
    hourly = power_dollars(drawn, 1.0, q.dollars_per_kwh, q.site_overhead)
    bill = hourly / _HOUR_S / tokens_s * 1e6
    return Section(
        "Power",
        text=(
            "At the device's power limit all the time: a ceiling. Decode bound by memory draws "
            "less, and so does an idle device; hosts and network are left out.",
        ),
        figures=(
            Figure("watts", "Devices", drawn, "W", Basis.ASSUMED,
                   f"{sized.fleet.devices:g} x {watts:g} W", source),
            Figure("site_watts", "Site", site, "W", Basis.ASSUMED,
                   f"{drawn:g} W x {q.site_overhead:g}", "power usage effectiveness, as given"),
            Figure("joules_per_output_token", "Per output token", joules, "J", Basis.ASSUMED,
                   f"{site:.4g} W / {tokens_s:.4g} tokens/s", "power / throughput"),
            Figure("kwh_per_million_output_tokens", "Per million output tokens",
                   joules / 3.6, "kWh", Basis.ASSUMED, f"{joules:.4g} J x 1e6 / 3.6e6",
                   "power / throughput"),
            Figure("electricity_dollars", "Electricity per million output tokens", bill, "$",
                   Basis.ASSUMED, f"{site / 1e3:.4g} kW x ${q.dollars_per_kwh:g}/kWh / 3600 / "
                   f"{tokens_s:.4g} tokens/s x 1e6", "inside a rented device's price already"),
            Figure("electricity_share", "of the cost above", bill / per_token if per_token else
                   None, "fraction", Basis.ASSUMED, f"${bill:.4g} / ${per_token:.4g}",
                   "inside a rented device's price already"),
        ),
    )  # fmt: skip


def _tables(q: PriceQuestion, asked: _Rates, sized: _Sized) -> Iterator[Section]:
    watts = _watts(q)
    devices = q.setup.layout.devices
    one = Fleet(devices, q.dollars_per_device_hour)
    found = [_rates(q, batch) for batch in sorted({*_BATCHES, q.batch})]
    fitting = [rates for rates in found if rates.fits]
    prices = {r.batch: dollars_per_million_tokens(one, r.tokens_per_s, sized.busy) for r in found}
    rows: list[dict[str, Cell]] = [
        {
            "batch": rates.batch,
            "step": rates.step_s,
            "tokens": rates.tokens_per_s,
            "user": rates.tokens_per_s / rates.batch,
            "dollars": prices[rates.batch],
            "joules": None
            if watts is None
            else joules_per_token(
                watts * devices * q.site_overhead, rates.tokens_per_s * sized.busy
            ),
            "fits": rates.fits,
        }
        for rates in found
    ]
    yield Section(
        "By batch",
        text=(
            f"One replica by the model, busy {sized.busy:.0%} of the time. A larger batch is "
            "cheaper and makes every sequence wait longer: the SLO sets the price.",
        ),
        tables=(
            Table(
                "by_batch",
                "Price and speed by sequences decoding together",
                (
                    Column("batch", "Batch", "", Basis.EXACT),
                    Column("step", "Step", "s", q.setup.basis),
                    Column("tokens", "Output", "tokens/s", q.setup.basis),
                    Column("user", "Each sequence", "tokens/s", q.setup.basis),
                    Column("dollars", "Per million output tokens", "$", q.setup.basis),
                    *((Column("joules", "Per token", "J", Basis.ASSUMED),) if watts else ()),
                    Column("fits", "Fits in memory"),
                ),
                tuple(rows),
            ),
        ),
        charts=(
            Chart(
                "price_by_batch",
                "Dollars per million output tokens by batch",
                Axis("Batch", "", log=True),
                Axis("$ per million output tokens", "$", log=True),
                (
                    Series(
                        q.setup.device.name,
                        [rates.batch for rates in fitting],
                        [prices[rates.batch] for rates in fitting],
                    ),
                ),
            ),
        )
        if fitting
        else (),
    )
    yield Section(
        "When it loses: idle devices",
        text=("What is reserved is paid for: a replica that is busy a tenth of the time costs ten "
              "times as much per token.",),
        tables=(
            Table(
                "by_utilisation",
                f"Price by the share of time that a replica is busy, batch {q.batch}",
                (
                    Column("busy", "Busy", "fraction", Basis.EXACT),
                    Column("dollars", "Per million output tokens", "$", q.basis),
                ),
                tuple(
                    {
                        "busy": share,
                        "dollars": dollars_per_million_tokens(one, asked.tokens_per_s, share),
                    }
                    for share in _SHARES
                ),
            ),
        ),
    )  # fmt: skip


def _watts(q: PriceQuestion) -> float | None:
    if q.watts_per_device is not None:
        return q.watts_per_device
    fact = q.setup.device.power_w
    return fact.value if fact is not None else None


def _warnings(q: PriceQuestion, rates: _Rates, sized: _Sized) -> Iterator[str]:
    if q.price_source == ASSUMED_PRICE:
        yield (
            f"No price is known for {q.setup.device.name}: ${q.dollars_per_device_hour:g} an hour "
            "is assumed; give --price-per-hour"
        )
    if not rates.fits:
        yield (
            f"{q.batch} sequences of {q.prompt_tokens + q.output_tokens:,} tokens do not fit: "
            "netgain plan memory says what does"
        )
    if q.available is not None and sized.fleet.devices > q.available:
        yield (
            f"{sized.fleet.devices:g} devices are needed and {q.available} can be had: lower the "
            "rate, raise --utilisation or --batch, or name another device"
        )
    if sized.busy > 0.8:
        yield f"Busy {sized.busy:.0%} of the time: requests queue above 80 %"
