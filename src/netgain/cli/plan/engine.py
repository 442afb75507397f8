"""The engine that handoff plans are about: how its options become a setup."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from netgain.errors import ConfigurationError

if TYPE_CHECKING:
    from netgain.cost.planner.setup import Measured, Setup

_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def setup_of(
    model: str,
    on: str,
    weights: str | None,
    kv_dtype: str,
    tp: int,
    hardware: list[Path] | None,
    measured: str | None = None,
) -> "Setup":
    """One replica of a model on a device and its usual topology.

    Raises `ConfigurationError` or `ModelError` for names nothing answers to, or a layout that
    cannot be.
    """
    from netgain.cli.plan.options import catalogue, model_and_weights
    from netgain.cost.layout import Layout
    from netgain.cost.planner.setup import Setup
    from netgain.cost.precision import kv_format
    from netgain.hardware.topologies import for_device

    known = catalogue(hardware)
    device = known.device(on)
    shape, stored, _ = model_and_weights(model, weights)
    layout = Layout(tp=tp)
    layout.check(shape)
    return Setup(
        shape,
        device,
        stored,
        kv_format(kv_dtype),
        layout,
        for_device(known, device, tp) if tp > 1 else None,
        measured=_measured(measured) if measured is not None else None,
    )


def numbers(option: str, text: str) -> tuple[float, ...]:
    """`0.8,0.7` as numbers. Raises `ConfigurationError`."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise ConfigurationError(
            f"{option} {text!r}: give numbers with commas, such as 0.8,0.7,0.6"
        ) from None


def byte_count(option: str, text: str) -> float:
    """`64MiB`, `1.2GB`, `4096` as bytes. Raises `ConfigurationError`."""
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kKmMgGtT]?)(i?)[bB]?\s*", text)
    try:
        if found is None:
            raise ValueError
        value = float(found[1])
    except ValueError:
        raise ConfigurationError(
            f"{option} {text!r}: give bytes, such as 64MiB, 1.2GB or 4096"
        ) from None
    power = "kmgt".find(found[2].lower()) + 1 if found[2] else 0
    return value * (1024**power if found[3] else _BYTES[found[2].lower()])


def _measured(text: str) -> "Measured":
    from netgain.cost.bounds import count, positive
    from netgain.cost.planner.setup import Measured

    found = re.fullmatch(r"([0-9.]+)@([0-9]+)x([0-9]+)", text.strip())
    if found is None:
        raise ConfigurationError(
            f"--measured-step {text!r}: give milliseconds@batch x context, such as 7.4@8x1280"
        )
    seconds = positive("--measured-step", float(found[1])) / 1e3
    return Measured(seconds, count("batch", int(found[2])), count("context", int(found[3])))
