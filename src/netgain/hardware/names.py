"""Forgiving look-up by name: case, dashes, dots and spaces do not matter; near misses are named."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

Named = TypeVar("Named")


def normalised(name: str) -> str:
    """`H100-SXM`, `h100_sxm` and `H100 SXM` are one name."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def by_name(named: Iterable[tuple[str, Named]]) -> dict[str, Named]:
    """An index of (name, thing) pairs by normalised name; the first of two equal names wins."""
    found: dict[str, Named] = {}
    for name, thing in named:
        found.setdefault(normalised(name), thing)
    return found


def nearest(name: str, known: Mapping[str, str], most: int = 3) -> list[str]:
    """Names in `known` (normalised to shown) closest to `name`, best first."""
    key = normalised(name)
    within = [shown for near, shown in known.items() if len(key) > 2 and key in near]
    close = [known[near] for near in difflib.get_close_matches(key, known, n=2 * most, cutoff=0.5)]
    return list(dict.fromkeys([*close[:1], *within, *close]))[:most]
