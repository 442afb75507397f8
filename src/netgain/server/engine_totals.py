"""The engine's counters across engine lives: an engine that restarts counts from zero again."""

from typing import Final

from netgain.ledger.counters import EngineCounters
from netgain.ledger.record import NetGain
from netgain.ledger.stages import Technique

_STATES: Final = frozenset({"waiting", "running", "kv_blocks_used", "kv_blocks_total"})
_TOTALS: Final = tuple(
    name for name in EngineCounters.__struct_fields__ if name not in _STATES | {"net_gain"}
)


class EngineTotals:
    """Sums the last snapshots of ended engines with the running engine's."""

    def __init__(self) -> None:
        self._before: dict[str, float] = dict.fromkeys(_TOTALS, 0)
        self._gains_before: dict[Technique, NetGain] = {}
        self._now = EngineCounters()

    @property
    def now(self) -> EngineCounters:
        """The running engine's own snapshot; its states are the states now."""
        return self._now

    def update(self, counters: EngineCounters) -> None:
        """Takes the running engine's newest snapshot."""
        self._now = counters

    def engine_ended(self) -> None:
        """Keeps what the ended engine counted; nothing runs or waits until the next one does."""
        self._before = self.totals()
        self._gains_before = self.gains()
        self._now = EngineCounters()

    def totals(self) -> dict[str, float]:
        """Every counter that only grows, by its name in `EngineCounters`."""
        return {name: self._before[name] + getattr(self._now, name) for name in _TOTALS}

    def gains(self) -> dict[Technique, NetGain]:
        """Each technique's saving and cost."""
        return {
            technique: _plus(self._gains_before.get(technique), self._now.net_gain.get(technique))
            for technique in {*self._gains_before, *self._now.net_gain}
        }


def _plus(left: NetGain | None, right: NetGain | None) -> NetGain:
    parts = [part for part in (left, right) if part is not None]
    return NetGain(sum(part.saved_s for part in parts), sum(part.cost_s for part in parts))
