"""Devices and links by name: the shipped data files, and entries of the user's own.

A user's file has the same form as `data/devices.toml` and `data/links.toml` (it may hold both
`[[device]]` and `[[link]]` tables). An entry with a known name changes only the keys it gives.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import msgspec
import platformdirs

from netgain.errors import ConfigurationError
from netgain.hardware.device import (
    Device,
    Fabric,
    Family,
    HostLink,
    MemoryLevel,
    Precision,
    Rate,
    ScaleUp,
)
from netgain.hardware.fact import Confidence, Fact
from netgain.hardware.link import Link, LinkScope
from netgain.hardware.names import by_name, nearest, normalised

_DATA: Final = Path(__file__).parent / "data"
_MIB: Final = 1 << 20
_LONGEST_NAME: Final = 60
"""Characters of an unknown name that an error repeats."""

Loose: TypeAlias = dict[str, object]
Converted = TypeVar("Converted")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every known device and link."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]

    def device(self, name: str) -> Device:
        """The device of this name. Raises `ConfigurationError` naming the nearest ones."""
        index = by_name(
            (known, device) for device in self.devices for known in (device.name, *device.aliases)
        )
        found = index.get(normalised(name))
        if found is None:
            raise _unknown("device", name, {k: d.name for k, d in index.items()})
        return found

    def link(self, name: str) -> Link:
        """The link of this name. Raises `ConfigurationError` naming the nearest ones."""
        index = by_name(
            (known, link) for link in self.links for known in (link.name, *link.aliases)
        )
        found = index.get(normalised(name))
        if found is None:
            raise _unknown("link", name, {k: link.name for k, link in index.items()})
        return found


def user_file() -> Path:
    """Where a user's own devices and links are looked for."""
    return platformdirs.user_config_path("netgain") / "hardware.toml"


def load_catalogue(files: Sequence[Path] = ()) -> Catalogue:
    """The shipped catalogue, the user's own file where there is one, then `files`; later ones win.

    Raises `ConfigurationError` for a file that cannot be read, is not TOML, or has a key or value
    that means nothing.
    """
    own = user_file()
    return _load((*((own,) if own.is_file() else ()), *files))


@cache
def shipped_catalogue() -> Catalogue:
    """What the package brings, without entries of the user's own."""
    return _load(())


def _load(files: Sequence[Path]) -> Catalogue:
    devices: dict[str, Loose] = {}
    links: dict[str, Loose] = {}
    sources: dict[str, str] = {}
    for path in (_DATA / "devices.toml", _DATA / "links.toml", *files):
        tables = _read(path)
        unknown = set(tables) - {"device", "link", "sources"}
        if unknown:
            raise ConfigurationError(
                f"{path}: unknown table {min(unknown)!r}; write [[device]], [[link]] or [sources]"
            )
        sources |= _convert(tables.get("sources", {}), dict[str, str], f"{path}: [sources]")
        for kind, known in (("device", devices), ("link", links)):
            for entry in _convert(tables.get(kind, []), list[Loose], f"{path}: [[{kind}]]"):
                _merge(known, entry, path)
    return Catalogue(
        tuple(
            _device(_convert(d, _DeviceEntry, f"device {n}"), sources) for n, d in devices.items()
        ),
        tuple(_link(_convert(d, _LinkEntry, f"link {n}"), sources) for n, d in links.items()),
    )


def _read(path: Path) -> Loose:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{path}: not a TOML file: {error}") from error


def _merge(known: dict[str, Loose], entry: Loose, path: Path) -> None:
    name = entry.get("name")
    if not isinstance(name, str) or not normalised(name):
        raise ConfigurationError(f"{path}: every entry needs a name, such as name = 'My-Device'")
    same = _known_as(known, name)
    if same is None:
        known[name] = entry
        return
    # The source of what the user changed is the user's file, not the shipped sheet.
    source = str(entry.get("source", path.name))
    changed = {key: _sourced(value, source) for key, value in entry.items()}
    known[same] = _overlaid(known[same], changed) | {"name": same}
    known[same].setdefault("source", source)


def _known_as(known: Mapping[str, Loose], name: str) -> str | None:
    """The entry of this name, or else of this alias."""
    wanted = normalised(name)
    for entry in known:
        if normalised(entry) == wanted:
            return entry
    for entry, values in known.items():
        aliases = values.get("aliases", [])
        if isinstance(aliases, list) and wanted in {normalised(str(alias)) for alias in aliases}:
            return entry
    return None


def _sourced(value: object, source: str) -> object:
    if isinstance(value, dict):
        if "value" in value:
            return {"source": source} | value
        return {
            key: inner if key == "domain" else _sourced(inner, source)
            for key, inner in value.items()
        }
    if isinstance(value, int | float) and not isinstance(value, bool):
        return {"value": float(value), "source": source}
    return value


def _overlaid(base: Loose, over: Loose) -> Loose:
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        both = isinstance(below, dict) and isinstance(value, dict) and "value" not in value
        merged[key] = _overlaid(below, value) if both else value  # type: ignore[arg-type]
    return merged


def _unknown(kind: str, name: str, known: Mapping[str, str]) -> ConfigurationError:
    near = nearest(name, known)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    names = ", ".join(sorted(set(known.values()), key=str.casefold))
    return ConfigurationError(f"unknown {kind} {name[:_LONGEST_NAME]!r}: {hint}Known are {names}")


# ---- the form of the files ------------------------------------------------------------------


class _Strict(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _Cited(_Strict):
    value: float
    source: str | None = None
    confidence: Confidence | None = None
    note: str = ""


_Value: TypeAlias = float | _Cited


class _RateEntry(_Strict):
    dense: _Value
    quoted: _Value | None = None
    achieved: _Value | None = None


class _MemoryEntry(_Strict):
    sheet: str
    mib: _Value | None = None
    gb: _Value | None = None


class _LevelEntry(_Strict):
    name: str
    mib: _Value
    bandwidth_gb_s: _Value | None = None


class _ScaleUpEntry(_Strict):
    link: str
    fabric: Fabric
    per_direction_gb_s: _Value
    domain: int
    pair_gb_s: _Value | None = None
    note: str = ""


class _HostEntry(_Strict):
    link: str
    per_direction_gb_s: _Value


class _DeviceEntry(_Strict):
    name: str
    label: str
    vendor: str
    family: Family
    software: str
    source: str
    memory: _MemoryEntry
    bandwidth_gb_s: _Value
    tflops: dict[Precision, _RateEntry]
    confidence: Confidence = Confidence.READ
    aliases: tuple[str, ...] = ()
    bandwidth_fraction: _Value | None = None
    levels: tuple[_LevelEntry, ...] = ()
    scale_up: _ScaleUpEntry | None = None
    host: _HostEntry | None = None
    power_w: _Value | None = None
    price_per_hour: _Value | None = None
    conflicts: tuple[str, ...] = ()


class _LinkEntry(_Strict):
    name: str
    scope: LinkScope
    source: str
    per_direction_gb_s: _Value
    confidence: Confidence = Confidence.READ
    pair_gb_s: _Value | None = None
    achieved_gb_s: _Value | None = None
    latency_us: _Value | None = None
    per_node: bool = False
    aliases: tuple[str, ...] = ()
    note: str = ""


def _convert(value: object, kind: type[Converted], where: str) -> Converted:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"{where}: {error}") from error


@dataclass(frozen=True, slots=True)
class _Facts:
    """Turns the values of one entry into facts: what they do not say, the entry says."""

    entry: str
    source: str
    confidence: Confidence
    sources: Mapping[str, str]

    def fact(self, value: _Value, scale: float) -> Fact:
        cited = _Cited(value=value) if isinstance(value, int | float) else value
        if not 0 < cited.value < float("inf"):
            raise ConfigurationError(f"{self.entry}: {cited.value} must be above zero and finite")
        source = cited.source or self.source
        return Fact(
            cited.value * scale,
            self._spelled(source),
            cited.confidence or self.confidence,
            cited.note,
        )

    def _spelled(self, source: str) -> str:
        """`S, A` in full."""
        parts = re.split(r"(, |; )", source)
        return "".join(self.sources.get(part, part) for part in parts)

    def maybe(self, value: _Value | None, scale: float) -> Fact | None:
        return None if value is None else self.fact(value, scale)


def _device(entry: _DeviceEntry, sources: Mapping[str, str]) -> Device:
    facts = _Facts(f"device {entry.name}", entry.source, entry.confidence, sources)
    if not entry.tflops:
        raise ConfigurationError(f"device {entry.name}: tflops needs at least one precision")
    memory = entry.memory
    if memory.mib is not None:
        memory_bytes = facts.fact(memory.mib, _MIB)
    elif memory.gb is not None:
        memory_bytes = facts.fact(memory.gb, 1e9)
    else:
        raise ConfigurationError(f"device {entry.name}: memory needs mib, or gb where that is all")
    return Device(
        name=entry.name,
        label=entry.label,
        vendor=entry.vendor,
        family=entry.family,
        software=entry.software,
        rates={kind: _rate(kind, rate, facts) for kind, rate in entry.tflops.items()},
        memory_bytes=memory_bytes,
        sheet_memory=memory.sheet,
        bandwidth_bytes_s=facts.fact(entry.bandwidth_gb_s, 1e9),
        aliases=entry.aliases,
        bandwidth_fraction=_fraction(entry.bandwidth_fraction, facts),
        levels=tuple(
            MemoryLevel(
                level.name, facts.fact(level.mib, _MIB), facts.maybe(level.bandwidth_gb_s, 1e9)
            )
            for level in entry.levels
        ),
        scale_up=_scale_up(entry.scale_up, facts),
        host=None
        if entry.host is None
        else HostLink(entry.host.link, facts.fact(entry.host.per_direction_gb_s, 1e9)),
        power_w=facts.maybe(entry.power_w, 1),
        price_per_hour=facts.maybe(entry.price_per_hour, 1),
        conflicts=entry.conflicts,
    )


def _rate(precision: Precision, entry: _RateEntry, facts: _Facts) -> Rate:
    dense, achieved = facts.fact(entry.dense, 1e12), facts.maybe(entry.achieved, 1e12)
    if achieved is not None and achieved.value > dense.value:
        raise ConfigurationError(
            f"{facts.entry}: {precision.value} achieves {achieved.value / 1e12:g} TFLOPS of "
            f"{dense.value / 1e12:g}: what is achieved cannot be above the dense peak"
        )
    return Rate(dense, facts.maybe(entry.quoted, 1e12), achieved)


def _fraction(value: _Value | None, facts: _Facts) -> Fact | None:
    fraction = facts.maybe(value, 1)
    if fraction is not None and fraction.value > 1:
        raise ConfigurationError(
            f"{facts.entry}: bandwidth_fraction is {fraction.value:g}: give a share, 0 to 1"
        )
    return fraction


def _pair(whole: Fact, value: _Value | None, facts: _Facts) -> Fact:
    pair = whole if value is None else facts.fact(value, 1e9)
    if pair.value > whole.value:
        raise ConfigurationError(
            f"{facts.entry}: a pair gets {pair.value / 1e9:g} GB/s of {whole.value / 1e9:g} to "
            "all: pair_gb_s cannot be above per_direction_gb_s"
        )
    return pair


def _scale_up(entry: _ScaleUpEntry | None, facts: _Facts) -> ScaleUp | None:
    if entry is None:
        return None
    if entry.domain < 2:
        raise ConfigurationError(f"{facts.entry}: a scale-up domain has at least two devices")
    whole = facts.fact(entry.per_direction_gb_s, 1e9)
    pair = _pair(whole, entry.pair_gb_s, facts)
    return ScaleUp(entry.link, entry.fabric, whole, pair, entry.domain, entry.note)


def _link(entry: _LinkEntry, sources: Mapping[str, str]) -> Link:
    facts = _Facts(f"link {entry.name}", entry.source, entry.confidence, sources)
    whole = facts.fact(entry.per_direction_gb_s, 1e9)
    return Link(
        name=entry.name,
        scope=entry.scope,
        per_direction_bytes_s=whole,
        pair_bytes_s=_pair(whole, entry.pair_gb_s, facts),
        achieved_bytes_s=facts.maybe(entry.achieved_gb_s, 1e9),
        latency_s=facts.maybe(entry.latency_us, 1e-6),
        per_node=entry.per_node,
        aliases=entry.aliases,
        note=entry.note,
    )
