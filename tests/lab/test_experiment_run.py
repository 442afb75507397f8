"""An arm whose numbers are not to be trusted says so."""

from collections.abc import Sequence

from netgain.lab.bench import BenchRun
from netgain.lab.experiment_run import doubts
from netgain.lab.load_plan import Ended, LoadOutcome
from netgain.lab.record import RequestRecord
from netgain.lab.run_header import CacheState, RunHeader
from netgain.lab.workloads.cache_state import CacheVerdict
from tests.lab.queues import answered, header, poisson_run


def said(run: RunHeader, records: Sequence[RequestRecord], reason: str = "") -> list[str]:
    outcome = LoadOutcome(
        ended=Ended.SERVER_GONE if reason else Ended.COMPLETE,
        reason=reason,
        started_unix_s=0.0,
        length_s=60.0,
        requests=len(records),
        failed=0,
        workers=1,
        cpu_s=1.0,
        leading_cpu_s=0.5,
    )
    done = BenchRun(
        header=run,
        records=tuple(records),
        outcome=outcome,
        cache=CacheVerdict(CacheState.UNDECLARED, None, ""),
        counted=None,
        notes=(),
        nonce="",
    )
    return list(doubts(done))


def test_a_sound_arm_has_none() -> None:
    assert said(*poisson_run(10, 60, seed=2)) == []


def test_an_arm_that_ended_early_says_why() -> None:
    (doubt,) = said(*poisson_run(10, 60, seed=2), reason="nobody answers")
    assert doubt == "ended early (server gone): nobody answers"


def test_an_arm_beyond_capacity_says_that_its_latencies_grow_with_its_length() -> None:
    (doubt,) = said(*poisson_run(40, 60, seed=0))
    assert doubt.startswith("saturated")
    assert "grew by" in doubt


def test_an_arm_whose_generator_was_late_is_invalid() -> None:
    records = [answered(i, i / 10, [i / 10 + 1], sent_s=i / 10 + 0.1) for i in range(200)]
    (doubt,) = said(header(duration_s=20), records)
    assert doubt.startswith("invalid")
