"""What serving costs in money and energy.

Source: cost per million tokens = devices x price per hour / 3600 / throughput x 1e6; R20 (DeepSeek
V3/R1 online, 24 hours) is the check.
"""

from dataclasses import dataclass

from netgain.cost.bounds import at_least_zero, fraction, positive

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Devices that are paid for, busy or not.

    `serving` devices carry traffic, `spare` ones are reserved for peaks, failures or loading.
    `dollars_per_device_hour` is what one costs.
    """

    serving: float
    dollars_per_device_hour: float
    spare: float = 0.0

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for no devices or a negative price."""
        positive("serving devices", self.serving)
        at_least_zero("spare devices", self.spare)
        at_least_zero("dollars_per_device_hour", self.dollars_per_device_hour)

    @property
    def devices(self) -> float:
        """All that are paid for."""
        return self.serving + self.spare

    @property
    def dollars_per_s(self) -> float:
        """What the fleet costs each second."""
        return self.devices * self.dollars_per_device_hour / _HOUR_S

    def device_hours(self, hours: float) -> float:
        """Device-hours paid in this many hours."""
        return self.devices * at_least_zero("hours", hours)

    def dollars(self, hours: float) -> float:
        """Money paid in this many hours."""
        return self.device_hours(hours) * self.dollars_per_device_hour


def dollars_per_million_tokens(fleet: Fleet, tokens_per_s: float, busy: float = 1.0) -> float:
    """Cost of 1e6 tokens at `tokens_per_s` while busy, `busy` the share of time with traffic."""
    return fleet.dollars_per_s / (positive("tokens_per_s", tokens_per_s) * _share(busy)) * 1e6


def dollars_per_good_request(
    fleet: Fleet, requests_per_s: float, attainment: float, busy: float = 1.0
) -> float:
    """Cost of one request that met every SLO; the others are paid for by the good ones."""
    good = positive("requests_per_s", requests_per_s) * positive(
        "attainment", fraction("attainment", attainment)
    )
    return fleet.dollars_per_s / (good * _share(busy))


def dollars_per_task(dollars_per_request: float, calls: float, retries: float = 0.0) -> float:
    """Cost of an agent's task of `calls` requests, a share `retries` of which is sent again."""
    return (
        dollars_per_request * positive("calls", calls) * (1.0 + at_least_zero("retries", retries))
    )


def joules_per_token(watts: float, tokens_per_s: float) -> float:
    """Energy of one token: power over throughput."""
    return at_least_zero("watts", watts) / positive("tokens_per_s", tokens_per_s)


def power_dollars(
    watts: float, hours: float, dollars_per_kwh: float, overhead: float = 1.0
) -> float:
    """Price of the electricity; `overhead` is the site's power over the machines' (PUE)."""
    return watts / 1e3 * hours * dollars_per_kwh * positive("overhead", overhead)


def margin(income: float, cost: float) -> float:
    """Profit over cost: income / cost - 1."""
    return income / positive("cost", cost) - 1.0


def _share(busy: float) -> float:
    return positive("busy", fraction("busy", busy))
