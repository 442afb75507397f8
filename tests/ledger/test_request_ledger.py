"""Stages touch, crossings add up, and two processes' parts join without a hole."""

from hypothesis import given
from hypothesis import strategies as st

from netgain.ledger.record import Handoff, Interval, LedgerRecord, NetGain
from netgain.ledger.request_ledger import RequestLedger
from netgain.ledger.stages import HandoffKind, LedgerStage, Technique

Q, P, D = LedgerStage.QUEUE, LedgerStage.PREFILL, LedgerStage.DECODE


def test_a_stage_begins_where_the_last_one_ended() -> None:
    ledger = RequestLedger(100)
    ledger.stage(Q, 150)
    ledger.stage(P, 170)
    assert ledger.record().stages == (Interval(Q, 100, 150), Interval(P, 150, 170))


def test_a_stage_without_length_is_dropped() -> None:
    ledger = RequestLedger(100)
    ledger.stage(Q, 100)
    ledger.stage(P, 120)
    ledger.stage(D, 120)
    assert ledger.record().stages == (Interval(P, 100, 120),)


def test_a_stage_that_would_end_before_it_began_is_dropped() -> None:
    ledger = RequestLedger(100)
    ledger.stage(Q, 150)
    ledger.stage(P, 120)
    assert ledger.end_ns == 150
    assert ledger.record().stages == (Interval(Q, 100, 150),)


def test_only_merging_extends_an_equal_last_stage() -> None:
    ledger = RequestLedger(0)
    ledger.stage(P, 10)
    ledger.stage(P, 20)
    ledger.stage(D, 30, merge=True)
    ledger.stage(D, 40, merge=True)
    assert ledger.record().stages == (
        Interval(P, 0, 10),
        Interval(P, 10, 20),
        Interval(D, 20, 40),
    )


@given(
    start=st.integers(-1000, 1000),
    stages=st.lists(
        st.tuples(st.sampled_from([Q, P, D]), st.integers(-1000, 3000), st.booleans()), max_size=20
    ),
)
def test_stages_are_contiguous_and_have_a_length_whatever_comes(
    start: int, stages: list[tuple[LedgerStage, int, bool]]
) -> None:
    ledger = RequestLedger(start)
    for stage, end, merge in stages:
        ledger.stage(stage, end, merge=merge)
    reached = start
    for interval in ledger.record().stages:
        assert interval.start_ns == reached
        assert interval.end_ns > interval.start_ns
        reached = interval.end_ns
    assert reached == ledger.end_ns == max([start, *(end for _, end, _ in stages)])


ENGINE_PART = LedgerRecord(
    (Interval(Q, 40, 60), Interval(P, 60, 90)),
    (Handoff(HandoffKind.CACHE_LOOKUP, "scheduler", "prefix_index", 0, 16, 40, 41),),
    cost_s=0.5,
    interference_s=0.25,
    net_gain={Technique.PREFIX_CACHE: NetGain(2.0, 0.5)},
)


def test_adopting_another_processs_part_puts_ipc_into_the_gaps() -> None:
    ledger = RequestLedger(0)
    ledger.stage(LedgerStage.RECEIVE, 30)
    ledger.adopt(ENGINE_PART)
    ledger.stage(LedgerStage.IPC, 95)
    assert ledger.record().stages == (
        Interval(LedgerStage.RECEIVE, 0, 30),
        Interval(LedgerStage.IPC, 30, 40),
        Interval(Q, 40, 60),
        Interval(P, 60, 90),
        Interval(LedgerStage.IPC, 90, 95),
    )


def test_adopting_a_part_whose_clock_is_a_little_early_keeps_stages_contiguous() -> None:
    ledger = RequestLedger(0)
    ledger.stage(LedgerStage.RECEIVE, 50)
    ledger.adopt(ENGINE_PART)
    assert ledger.record().stages == (
        Interval(LedgerStage.RECEIVE, 0, 50),
        Interval(Q, 50, 60),
        Interval(P, 60, 90),
    )


def test_adopting_adds_costs_gains_and_handoffs() -> None:
    ledger = RequestLedger(0)
    ledger.cost_s = 1.0
    ledger.gain(Technique.PREFIX_CACHE, 1.0, 1.0)
    ledger.adopt(ENGINE_PART)
    record = ledger.record()
    assert (record.cost_s, record.interference_s) == (1.5, 0.25)
    assert record.net_gain == {Technique.PREFIX_CACHE: NetGain(3.0, 1.5)}
    assert record.handoffs == ENGINE_PART.handoffs


def test_adopting_an_empty_part_adds_no_stage() -> None:
    ledger = RequestLedger(0)
    ledger.adopt(LedgerRecord(()))
    assert ledger.record() == LedgerRecord(())


def crossing(start_ns: int, end_ns: int, *, ok: bool = True) -> Handoff:
    return Handoff(HandoffKind.IPC_OUTPUT, "engine", "frontend", 10, 2, start_ns, end_ns, 1, ok)


def test_crossings_of_one_kind_are_summed_from_first_start_to_last_end() -> None:
    ledger = RequestLedger(0)
    for handoff in (crossing(5, 7), crossing(10, 13), crossing(20, 21)):
        ledger.handoff(handoff)
    assert ledger.record().handoffs == (
        Handoff(HandoffKind.IPC_OUTPUT, "engine", "frontend", 30, 6, 5, 21, 3, True, 3),
    )


def test_crossings_entered_out_of_order_still_span_first_start_to_last_end() -> None:
    ledger = RequestLedger(0)
    for handoff in (crossing(10, 30), crossing(5, 7)):
        ledger.handoff(handoff)
    (summed,) = ledger.record().handoffs
    assert (summed.start_ns, summed.end_ns) == (5, 30)


def test_one_failed_crossing_makes_the_sum_not_ok() -> None:
    ledger = RequestLedger(0)
    for handoff in (crossing(1, 2), crossing(2, 3, ok=False), crossing(3, 4)):
        ledger.handoff(handoff)
    assert [handoff.ok for handoff in ledger.record().handoffs] == [False]


def test_crossings_of_different_kinds_stay_apart() -> None:
    ledger = RequestLedger(0)
    ledger.handoff(crossing(1, 2))
    ledger.handoff(ENGINE_PART.handoffs[0])
    assert [handoff.kind for handoff in ledger.record().handoffs] == [
        HandoffKind.IPC_OUTPUT,
        HandoffKind.CACHE_LOOKUP,
    ]


def test_a_record_does_not_change_when_the_ledger_goes_on() -> None:
    ledger = RequestLedger(0)
    ledger.gain(Technique.PREFIX_CACHE, 1.0, 0.0)
    before = ledger.record()
    ledger.stage(Q, 10)
    ledger.gain(Technique.PREFIX_CACHE, 1.0, 0.0)
    assert before == LedgerRecord((), net_gain={Technique.PREFIX_CACHE: NetGain(1.0, 0.0)})
