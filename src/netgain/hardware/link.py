"""The links between devices, nodes and storage, one direction at a time."""

from dataclasses import dataclass
from enum import StrEnum

from netgain.hardware.fact import Fact


class LinkScope(StrEnum):
    """What a link joins."""

    HOST = "host"
    INTRA_NODE = "intra-node"
    INTER_NODE = "inter-node"
    MEMORY = "memory"
    STORAGE = "storage"


@dataclass(frozen=True, slots=True)
class Link:
    """`per_direction_bytes_s` is the peak one way, `achieved_bytes_s` what was seen of it.

    `pair_bytes_s` is what one pair of devices gets where the first is an aggregate over peers.
    `per_node` marks a figure for a whole node with several adapters.
    """

    name: str
    scope: LinkScope
    per_direction_bytes_s: Fact
    pair_bytes_s: Fact
    achieved_bytes_s: Fact | None = None
    latency_s: Fact | None = None
    per_node: bool = False
    aliases: tuple[str, ...] = ()
    note: str = ""

    @property
    def total_bytes_s(self) -> float:
        """Both directions added: how most sheets quote NVLink and PCIe."""
        return 2 * self.per_direction_bytes_s.value
