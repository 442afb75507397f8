"""Arrivals as `--arrivals` takes them."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from netgain.errors import ConfigurationError
from netgain.lab.arrivals import Arrivals, Constant, Gamma, Ramp, Step, poisson

FORMS: Final = (
    "poisson, constant, gamma:SHAPE (1 is Poisson, below 1 burstier), ramp:LAST (from the rate to "
    "LAST), or step:FACTOR:FROM:TO (in seconds; the middle third, times 5)"
)


def parse_arrivals(text: str, rate: float, duration_s: float) -> Arrivals:
    """Arrivals of mean or first rate `rate`, requests/s, in a run of `duration_s`.

    Raises `ConfigurationError` for another form, or numbers that make no arrivals.
    """
    name, *numbers = text.strip().lower().split(":")
    make = _KINDS.get(name)
    if make is None:
        raise ConfigurationError(f"unknown arrivals {text!r}: choose {FORMS}")
    try:
        values = [float(number) for number in numbers]
    except ValueError:
        raise ConfigurationError(f"arrivals {text!r}: not numbers; choose {FORMS}") from None
    arrivals = make(rate, values, duration_s)
    if arrivals is None:
        raise ConfigurationError(f"arrivals {text!r}: too many or too few numbers; choose {FORMS}")
    return arrivals


def _constant(rate: float, values: list[float], _duration_s: float) -> Arrivals | None:
    return None if values else Constant(rate)


def _poisson(rate: float, values: list[float], _duration_s: float) -> Arrivals | None:
    return None if values else poisson(rate)


def _gamma(rate: float, values: list[float], _duration_s: float) -> Arrivals | None:
    return Gamma(rate, values[0]) if len(values) == 1 else None


def _ramp(rate: float, values: list[float], duration_s: float) -> Arrivals | None:
    return Ramp(rate, values[0], duration_s) if len(values) == 1 else None


def _step(rate: float, values: list[float], duration_s: float) -> Arrivals | None:
    if len(values) not in (0, 1, 3):
        return None
    factor, from_s, to_s = (*values, *(5.0, duration_s / 3, 2 * duration_s / 3)[len(values) :])
    return Step(rate, from_s, to_s, duration_s, factor)


_Make = Callable[[float, list[float], float], Arrivals | None]
_KINDS: Final[Mapping[str, _Make]] = MappingProxyType(
    {"poisson": _poisson, "constant": _constant, "gamma": _gamma, "ramp": _ramp, "step": _step}
)
