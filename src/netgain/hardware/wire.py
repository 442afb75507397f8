"""How a link behaves: its peak from the catalogue, and the share of it that transfers reach."""

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from netgain.hardware.catalogue import Catalogue
from netgain.hardware.link import Link
from netgain.hardware.names import normalised

_DATA: Final = Path(__file__).parent / "data" / "wires.toml"
_BOTH: Final = ("collective", "send")
_GUESS: Final = "no measurement known: three quarters of the peak, 2 us a hop"


@dataclass(frozen=True, slots=True)
class Wire:
    """What runs along one edge of a topology, one direction.

    `bytes_per_s` is the peak; `collective`, `send` and `in_switch` are shares of it (`in_switch`
    None where no switch adds). `hop_s` is the latency of the edge. `source` says where the shares
    come from, `assumed` which of them ("collective", "send") nobody measured.
    """

    name: str
    bytes_per_s: float
    collective: float
    send: float
    hop_s: float
    source: str
    in_switch: float | None = None
    assumed: tuple[str, ...] = ()

    @property
    def checked(self) -> bool:
        """Whether somebody measured every share."""
        return not self.assumed

    def scaled(self, factor: float) -> "Wire":
        """Several of these side by side, or a share of one."""
        return replace(self, bytes_per_s=self.bytes_per_s * factor)


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    link: str
    source: str
    collective: float
    send: float
    hop_us: float
    in_switch: float | None = None
    assumed: tuple[str, ...] = ()
    per_direction_gb_s: float | None = None


def wire(catalogue: Catalogue, name: str) -> Wire:
    """The link of this name as a wire between one pair.

    A link of the user's own without known behaviour gets cautious shares, marked assumed.
    Raises `ConfigurationError` for an unknown link, naming the nearest.
    """
    entry = _entries().get(normalised(name))
    if entry is not None and entry.per_direction_gb_s is not None:
        return _joined(entry.link, entry.per_direction_gb_s * 1e9, entry)
    link = catalogue.link(name)
    return _joined(link.name, link.pair_bytes_s.value, _entries().get(normalised(link.name)), link)


def _joined(name: str, bytes_per_s: float, entry: _Entry | None, link: Link | None = None) -> Wire:
    if entry is not None:
        return Wire(
            name,
            bytes_per_s,
            entry.collective,
            entry.send,
            entry.hop_us * 1e-6,
            entry.source,
            entry.in_switch,
            entry.assumed,
        )
    achieved = link.achieved_bytes_s if link else None
    share = min(1.0, achieved.value / bytes_per_s) if achieved else 0.75
    return Wire(name, bytes_per_s, share, share, 2e-6, _GUESS, None, _BOTH)


@cache
def _entries() -> dict[str, _Entry]:
    tables = tomllib.loads(_DATA.read_text("utf-8"))
    return {
        normalised(entry.link): entry for entry in msgspec.convert(tables["wire"], list[_Entry])
    }
