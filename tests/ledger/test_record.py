"""Ledger values: moved between clocks, sent between processes, shown to clients."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.ledger.record import (
    Handoff,
    Interval,
    LedgerJSON,
    LedgerRecord,
    NetGain,
    covered_ns,
    render,
)
from netgain.ledger.stages import HandoffKind, LedgerStage, Technique

S = 1_000_000_000
RECORD = LedgerRecord(
    (
        Interval(LedgerStage.QUEUE, 10 * S, 11 * S),
        Interval(LedgerStage.PREFILL, 11 * S, 13 * S),
        Interval(LedgerStage.DECODE, 13 * S, 17 * S),
    ),
    (Handoff(HandoffKind.IPC_SUBMIT, "frontend", "engine", 100, 7, 10 * S, 11 * S, S // 2, True),),
    cost_s=3.0,
    interference_s=0.5,
    net_gain={Technique.PREFIX_CACHE: NetGain(2.0, 3.0)},
)


def test_a_record_survives_msgpack() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(RECORD), type=LedgerRecord) == RECORD


def test_shifting_moves_every_time_and_nothing_else() -> None:
    moved = RECORD.shifted(5)
    assert moved.shifted(-5) == RECORD
    assert [(i.start_ns, i.end_ns) for i in moved.stages] == [
        (i.start_ns + 5, i.end_ns + 5) for i in RECORD.stages
    ]
    assert (moved.handoffs[0].start_ns, moved.handoffs[0].end_ns) == (10 * S + 5, 11 * S + 5)
    assert moved.handoffs[0].overlapped_ns == S // 2
    assert (moved.cost_s, moved.interference_s, moved.net_gain) == (3.0, 0.5, RECORD.net_gain)


intervals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20)).map(
        lambda pair: Interval(LedgerStage.QUEUE, pair[0], pair[0] + pair[1])
    ),
    max_size=8,
)


@given(stages=intervals, start=st.integers(0, 60), length=st.integers(0, 60))
def test_covered_time_is_what_at_least_one_stage_covers(
    stages: list[Interval], start: int, length: int
) -> None:
    covered = {ns for i in stages for ns in range(i.start_ns, i.end_ns)}
    assert covered_ns(stages, start, start + length) == len(
        covered & set(range(start, start + length))
    )


def rendered() -> dict[str, object]:
    shown = render(RECORD, 9 * S, 20 * S, 13 * S)
    value = json.loads(msgspec.json.encode(shown))
    assert isinstance(value, dict)
    return value


def test_the_json_form_has_the_documented_keys() -> None:
    shown = rendered()
    assert list(shown) == [
        "e2e_s",
        "ttft_s",
        "stages",
        "other_s",
        "cost_s",
        "interference_s",
        "handoffs",
        "net_gain",
    ]


def test_stages_and_gains_have_the_documented_keys() -> None:
    shown = render(RECORD, 9 * S, 20 * S, 13 * S)
    value = json.loads(msgspec.json.encode(shown))
    assert value["stages"][1] == {"stage": "prefill", "start_s": 2.0, "end_s": 4.0}
    assert value["net_gain"] == {"prefix_cache": {"saved_s": 2.0, "cost_s": 3.0, "net_s": -1.0}}


def test_a_handoff_says_from_and_to_and_how_many_crossings_it_sums() -> None:
    value = json.loads(msgspec.json.encode(render(RECORD, 9 * S, 20 * S, None)))
    assert value["handoffs"] == [
        {
            "kind": "ipc_submit",
            "from": "frontend",
            "to": "engine",
            "bytes": 100,
            "tokens": 7,
            "start_s": 1.0,
            "end_s": 2.0,
            "overlapped_s": 0.5,
            "ok": True,
            "count": 1,
        }
    ]


def test_times_count_from_the_start_given_and_the_rest_is_other() -> None:
    shown = render(RECORD, 9 * S, 20 * S, 13 * S)
    assert (shown.e2e_s, shown.ttft_s) == (11.0, 4.0)
    # One second before the first stage, three after the last.
    assert shown.other_s == pytest.approx(4.0)


def test_stages_beyond_the_ends_do_not_make_other_negative() -> None:
    assert render(RECORD, 12 * S, 14 * S, None).other_s == 0.0


def test_a_request_without_a_token_has_no_ttft() -> None:
    assert render(RECORD, 9 * S, 20 * S, None).ttft_s is None


def test_the_json_form_reads_back() -> None:
    shown = render(RECORD, 9 * S, 20 * S, 13 * S)
    assert msgspec.json.decode(msgspec.json.encode(shown), type=LedgerJSON) == shown
