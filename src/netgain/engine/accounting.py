"""What each step cost whom: shares of engine time, interference, prefix-cache gain.

Written at commit and at admission; costs a few microseconds a slice and nothing per token.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from netgain.cost.step_time import StepLoad, StepTimeEstimator, StepTimeModel
from netgain.engine.clock import NS_PER_S
from netgain.engine.request import Request
from netgain.engine.step import Slice
from netgain.ledger.counters import EngineCounters
from netgain.ledger.record import Handoff, NetGain
from netgain.ledger.stages import HandoffKind, LedgerStage, Technique


@dataclass(frozen=True, slots=True)
class ScheduledSlice:
    """A slice of an outstanding step, with what its owner was doing when it was scheduled."""

    request: Request
    piece: Slice
    epoch: int
    stage: LedgerStage


class StepAccountant:
    """Writes the requests' ledgers and the engine's counters."""

    def __init__(self, estimator: StepTimeEstimator, step_time_target_s: float) -> None:
        self.counters = EngineCounters()
        self.estimator = estimator
        self._target_s = step_time_target_s

    @property
    def model(self) -> StepTimeModel:
        """The step-time model as calibrated so far."""
        return self.estimator.model

    def step_ended(
        self,
        slices: Sequence[ScheduledSlice],
        load: StepLoad,
        started_ns: int,
        ended_ns: int,
        *,
        ordinary: bool = True,
    ) -> None:
        """Takes one step into ledgers, counters and the step-time model.

        How long a step took that failed, or that scored prompts, says nothing about the `ordinary`.
        """
        seconds = (ended_ns - started_ns) / NS_PER_S
        counters = self.counters
        counters.steps += 1
        counters.step_tokens += load.tokens
        counters.busy_s += seconds
        self._share_cost(slices, seconds)
        self._charge_interference(slices, seconds)
        for entry in slices:
            self._enter_stage(entry, started_ns, ended_ns)
        if ordinary:
            self.estimator.observe(load, seconds)

    def cache_looked_up(
        self, request: Request, hit_tokens: int, started_ns: int, ended_ns: int, *, alone: bool
    ) -> None:
        """Counts a request's first look-up and what its hit saves."""
        counters = self.counters
        counters.prefix_queries += 1
        counters.prefix_queried_tokens += len(request.tokens)
        if hit_tokens:
            counters.prefix_hits += 1
            counters.prefix_hit_tokens += hit_tokens
        request.cached_tokens = hit_tokens
        request.ledger.handoff(
            Handoff(
                HandoffKind.CACHE_LOOKUP,
                "scheduler",
                "prefix_index",
                0,
                hit_tokens,
                started_ns,
                ended_ns,
            )
        )
        saved_s = self._prefill_saved_s(len(request.tokens), hit_tokens, alone=alone)
        self.gained(request, saved_s, (ended_ns - started_ns) / NS_PER_S)

    def gained(self, request: Request, saved_s: float, cost_s: float) -> None:
        """Adds to the prefix cache's net gain."""
        request.ledger.gain(Technique.PREFIX_CACHE, saved_s, cost_s)
        seen = self.counters.net_gain.get(Technique.PREFIX_CACHE, NetGain(0.0, 0.0))
        self.counters.net_gain = {
            **self.counters.net_gain,
            Technique.PREFIX_CACHE: NetGain(seen.saved_s + saved_s, seen.cost_s + cost_s),
        }

    def _prefill_saved_s(self, total: int, hit: int, *, alone: bool) -> float:
        """Modelled time of the prefill that a hit avoided.

        Alone, the avoided chunks would have been steps of their own, each reading the weights;
        beside others they would have ridden along, so only their own part counts.
        """
        if not hit:
            return 0.0
        model = self.model
        chunk = max(1, model.largest_chunk(StepLoad(), 0, self._target_s))
        if alone:
            return model.prefill_s(0, total, chunk) - model.prefill_s(hit, total - hit, chunk)
        return model.slice_own_s(0, hit)

    def _share_cost(self, slices: Sequence[ScheduledSlice], seconds: float) -> None:
        model = self.model
        weights = [model.slice_own_s(entry.piece.start, entry.piece.count) for entry in slices]
        total = sum(weights)
        if total <= 0:
            weights = [float(entry.piece.count) for entry in slices]
            total = sum(weights)
        for entry, weight in zip(slices, weights, strict=True):
            share = seconds * weight / total
            if entry.request.finished:
                self.counters.unbilled_s += share
            else:
                entry.request.ledger.cost_s += share

    def _charge_interference(self, slices: Sequence[ScheduledSlice], seconds: float) -> None:
        decodes = [entry for entry in slices if entry.stage is LedgerStage.DECODE]
        if not decodes or len(decodes) == len(slices):
            return
        plain = self.model.step_s(StepLoad.of((e.piece.start, e.piece.count) for e in decodes))
        lost_s = max(0.0, seconds - plain)
        for entry in decodes:
            if not entry.request.finished:
                entry.request.ledger.interference_s += lost_s
                self.counters.interference_s += lost_s

    def _enter_stage(self, entry: ScheduledSlice, started_ns: int, ended_ns: int) -> None:
        counters = self.counters
        count = entry.piece.count
        if entry.stage is LedgerStage.DECODE:
            counters.decode_tokens += count
        elif entry.stage is LedgerStage.RECOMPUTE:
            counters.recomputed_tokens += count
        else:
            counters.prefill_tokens += count
        if entry.request.finished:
            return
        ledger = entry.request.ledger
        if entry.stage is LedgerStage.DECODE:
            ledger.stage(LedgerStage.DECODE, ended_ns, merge=True)
            return
        ledger.stage(LedgerStage.SCHEDULE, started_ns)
        ledger.stage(entry.stage, ended_ns)
