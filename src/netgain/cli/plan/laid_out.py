"""The options that lay a model out over devices, and the engine they describe."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from netgain.cost.layout import Layout
    from netgain.cost.planner.setup import Setup
    from netgain.hardware.catalogue import Catalogue
    from netgain.hardware.device import Device
    from netgain.hardware.topology import Topology

TopologyName: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--topology",
        help="What joins the devices (`netgain plan links --list`).",
        show_default="as the device is usually built",
    ),
]
Network: TypeAlias = Annotated[
    str | None,
    typer.Option("--network", help="The link between machines, such as 'InfiniBand NDR'."),
]


def joined(
    known: "Catalogue",
    device: "Device",
    layout: "Layout",
    topology: str | None,
    network: str | None,
) -> "Topology | None":
    """What joins the devices of a layout; None for one device. Raises `ConfigurationError`."""
    from netgain.hardware.topologies import for_device, preset

    if layout.devices == 1:
        return None
    if topology is not None:
        return preset(known, topology, None, network)
    return for_device(known, device, layout.devices, network or "InfiniBand NDR")


def engine_of(
    model: str,
    on: str,
    weights: str | None,
    kv_dtype: str,
    layout: "Layout",
    topology: str | None,
    network: str | None,
    hardware: list[Path] | None,
    measured: str | None = None,
) -> "Setup":
    """One replica of a model over the devices of a layout.

    Raises `ConfigurationError` or `ModelError` for names nothing answers to, or a layout that
    cannot be.
    """
    from dataclasses import replace

    from netgain.cli.plan.engine import setup_of
    from netgain.cli.plan.options import catalogue

    known = catalogue(hardware)
    alone = setup_of(model, on, weights, kv_dtype, 1, hardware, measured)
    layout.check(alone.shape)
    return replace(
        alone, layout=layout, topology=joined(known, alone.device, layout, topology, network)
    )
