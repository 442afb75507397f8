"""Runs the arms of an experiment, one after another."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import groupby

from netgain.lab.arrivals import poisson
from netgain.lab.bench import Bench, BenchRun, OnProgress, RunPlan
from netgain.lab.load_plan import ClosedLoad, Load, OpenLoad
from netgain.lab.metrics.run_metrics import run_metrics
from netgain.lab.run_header import LoadKind
from netgain.lab.workloads.experiments.plan import Arm, ArmLoad, ArmResult, Experiment

BenchFor = Callable[[tuple[str, ...]], AbstractContextManager[Bench]]
"""A bench of a server that was started with these flags."""


def run_experiment(
    experiment: Experiment, bench_for: BenchFor, seed: int, on_progress: Callable[[Arm], OnProgress]
) -> Iterator[ArmResult]:
    """What every runnable arm gave; arms that need the same server share one, in their order.

    The first that does not run to its end is the last. Raises `NetgainError`s.
    """
    for flags, arms in groupby(experiment.runnable, key=lambda arm: arm.server_flags):
        with bench_for(flags) as bench:
            for arm in arms:
                result, complete = _run(arm, bench, seed, on_progress(arm))
                yield result
                if not complete:
                    return


def _run(arm: Arm, bench: Bench, seed: int, on_progress: OnProgress) -> tuple[ArmResult, bool]:
    plan = RunPlan(
        workload=arm.workload,
        load=_load(arm.load),
        duration_s=None,
        requests=arm.load.conversations,
        seed=seed,
        cache=arm.cache,
        warm_up=None if arm.warm_up is None else arm.warming_pass,
        drain_s=120.0,
        keep_text=True,
    )
    done = bench.run(plan, on_progress)
    result = ArmResult(
        arm, done.records, done.counted, done.cache, tuple(doubts(done)), nonce=done.nonce
    )
    return result, not done.outcome.reason


def doubts(done: BenchRun) -> Iterator[str]:
    """Why an arm's numbers may not be what they seem; the cache's state is judged beside them."""
    if done.outcome.reason:
        yield f"ended early ({done.outcome.ended.value}): {done.outcome.reason}"
    metrics = run_metrics(done.header, done.records)
    if not metrics.valid:
        yield "invalid: the load generator was late or could not send; give it cores of its own"
    if metrics.saturated:
        yield (
            "saturated: the server did not keep up, latencies grow with the arm's length "
            f"({metrics.saturation.evidence}); lower the rates"
        )


def _load(load: ArmLoad) -> Load:
    if load.kind is LoadKind.CLOSED:
        return ClosedLoad(load.concurrency or 1)
    assert load.rate is not None
    return OpenLoad(poisson(load.rate))
