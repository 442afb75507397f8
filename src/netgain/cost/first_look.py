"""Where to look first: the first link, and the first axis of the hardware, for a given situation.

A table gives a hypothesis; a measurement gives a verdict.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from netgain.cost.bounds import count


class Deployment(StrEnum):
    """How devices work together."""

    INDEPENDENT = "independent models on separate devices"
    TENSOR_PARALLEL = "tensor parallelism inside a node"
    OVER_SERVERS = "one model over several servers"


class Trouble(StrEnum):
    """What is wrong, or what is wanted."""

    DOES_NOT_FIT = "weights do not fit"
    SLOW_DECODE = "slow decode of small batches"
    COMMUNICATION = "communication waits grow"
    RACK_LIMIT = "the rack's limit is reached"
    MIGRATION = "the burden of migration"
    LOWEST_LATENCY = "the lowest predictable latency"


class Axis(StrEnum):
    """The axes by which hardware is compared, and what decides beside them."""

    COMPUTE = "compute"
    CAPACITY = "memory capacity"
    BANDWIDTH = "memory bandwidth"
    INTERCONNECT = "interconnect"
    POWER = "power"
    SOFTWARE = "software ecosystem"
    SRAM = "SRAM machines"


@dataclass(frozen=True, slots=True)
class Look:
    """What to examine first, and with it."""

    first: str
    also: str
    why: str


_LINKS: Final = {
    Deployment.INDEPENDENT: Look("PCIe", "", "nothing crosses between the devices: PCIe may do"),
    Deployment.TENSOR_PARALLEL: Look(
        "NVLink/NVSwitch",
        "topology",
        "two collectives in every layer; a pair without the fast link falls back to PCIe",
    ),
    Deployment.OVER_SERVERS: Look(
        "InfiniBand/RoCE", "RDMA", "every message leaves the node: without RDMA it crosses the host"
    ),
}
_AXES: Final = {
    Trouble.DOES_NOT_FIT: Look(
        Axis.CAPACITY, "sharding", "nothing else matters before the weights are in memory"
    ),
    Trouble.SLOW_DECODE: Look(
        Axis.BANDWIDTH, "on-chip memory", "each token reads every weight that it meets"
    ),
    Trouble.COMMUNICATION: Look(
        Axis.INTERCONNECT, "topology", "computation is done and waits for a collective"
    ),
    Trouble.RACK_LIMIT: Look(
        Axis.POWER, "performance per watt", "what cannot be powered and cooled cannot be racked"
    ),
    Trouble.MIGRATION: Look(
        Axis.SOFTWARE,
        "kernels, runtime, quantisation, monitoring, skills",
        "code in CUDA, and no experience with the other SDK",
    ),
    Trouble.LOWEST_LATENCY: Look(
        Axis.SRAM, "static execution", "memory beside the units, and a schedule made beforehand"
    ),
}


def deployment_of(devices_per_model: int, machines_per_model: int) -> Deployment:
    """How a model's devices work together, by how many it takes on how many machines."""
    count("devices_per_model", devices_per_model)
    count("machines_per_model", machines_per_model)
    if machines_per_model > 1:
        return Deployment.OVER_SERVERS
    return Deployment.TENSOR_PARALLEL if devices_per_model > 1 else Deployment.INDEPENDENT


def first_link(deployment: Deployment) -> Look:
    """The link to examine first."""
    return _LINKS[deployment]


def first_axis(trouble: Trouble) -> Look:
    """The axis to examine first."""
    return _AXES[trouble]
