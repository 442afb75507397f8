"""What the formulas take, checked in one place: a wrong number is named, never computed with."""

import math

from netgain.errors import ConfigurationError


def positive(name: str, value: float) -> float:
    """`value` if it is a number above zero. Raises `ConfigurationError`."""
    if not math.isfinite(value) or value <= 0:
        raise ConfigurationError(f"{name} is {value:g}: give a number above 0")
    return value


def at_least_zero(name: str, value: float) -> float:
    """`value` if it is a number from 0 on. Raises `ConfigurationError`."""
    if not math.isfinite(value) or value < 0:
        raise ConfigurationError(f"{name} is {value:g}: give 0 or more")
    return value


def fraction(name: str, value: float) -> float:
    """`value` if it is from 0 to 1. Raises `ConfigurationError`."""
    if not 0.0 <= value <= 1.0:
        raise ConfigurationError(f"{name} is {value:g}: give a number from 0 to 1")
    return value


def below_one(name: str, value: float) -> float:
    """`value` if it is from 0 to below 1. Raises `ConfigurationError`."""
    if not 0.0 <= value < 1.0:
        raise ConfigurationError(f"{name} is {value:g}: give a number from 0 to below 1")
    return value


def count(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    """`value` if it is a whole number from `least` on, to `most`. Raises `ConfigurationError`."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise ConfigurationError(f"{name} is {value}: give a whole number from {least} on")
    if most is not None and value > most:
        raise ConfigurationError(f"{name} is {value:,}: give {least:,} to {most:,}")
    return int(value)
