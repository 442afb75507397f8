"""The client's view against the server's ledger."""

import json

import msgspec
import pytest

from netgain.lab.client_vs_ledger import client_vs_ledger
from netgain.lab.record import ErrorKind, RequestRecord
from netgain.ledger.record import Interval, LedgerRecord, render
from netgain.ledger.stages import LedgerStage
from tests.lab.scripts import answer


def with_ledger(record: RequestRecord, e2e_s: float, ttft_s: float | None) -> RequestRecord:
    ledger: dict[str, object] = {
        "e2e_s": e2e_s,
        "ttft_s": ttft_s,
        "stages": [
            {"stage": "queue", "start_s": 0.0, "end_s": 0.01},
            {"stage": "prefill", "start_s": 0.01, "end_s": 0.03},
            {"stage": "prefill", "start_s": 0.03, "end_s": 0.04},
            {"stage": "decode", "start_s": 0.04, "end_s": e2e_s - 0.001},
        ],
        "other_s": 0.001,
        "cost_s": 1.0,
        "interference_s": 0.0,
        "handoffs": [],
        "net_gain": {},
    }
    return msgspec.structs.replace(record, ledger=msgspec.Raw(json.dumps(ledger).encode()))


def test_what_the_client_saw_beyond_the_ledger_is_network_and_client() -> None:
    found = client_vs_ledger(
        [
            with_ledger(answer(0, [(50, 1), (105, 1)], sent=0), 0.1, 0.048),
            with_ledger(answer(1, [(150, 1), (209, 1)], sent=100, intended=20), 0.1, 0.046),
            with_ledger(answer(2, [(50, 1), (120, 1)]), 0.1, None),
        ]
    )
    assert found is not None
    assert found.ttft is not None
    assert found.e2e is not None
    assert (found.n, found.ttft.n, found.e2e.n) == (3, 2, 3)
    # From the send: 50 - 48 and 50 - 46; 105 - 100, 109 - 100, 120 - 100.
    assert found.ttft.p50_s == pytest.approx(0.003)
    assert (found.e2e.minimum_s, found.e2e.p50_s, found.e2e.maximum_s) == pytest.approx(
        (0.005, 0.009, 0.020)
    )


def test_stages_other_and_the_remainder_add_up_to_what_the_client_saw() -> None:
    found = client_vs_ledger([with_ledger(answer(0, [(50, 1), (105, 1)]), 0.1, 0.048)])
    assert found is not None
    assert found.stage_s == pytest.approx({"queue": 0.01, "prefill": 0.03, "decode": 0.059})
    rest = found.client_e2e_s - found.ledger_e2e_s
    assert sum(found.stage_s.values()) + found.other_s + rest == pytest.approx(found.client_e2e_s)


def test_requests_without_a_ledger_and_failed_ones_are_left_out() -> None:
    chunks = [(50, 1), (105, 1)]
    failed = with_ledger(answer(0, chunks, failure=ErrorKind.DISCONNECTED), 0.1, 0.04)
    assert client_vs_ledger([failed, answer(1, chunks)]) is None


def test_a_ledger_of_another_form_is_counted_and_left_out() -> None:
    odd = msgspec.structs.replace(answer(0, [(50, 1)]), ledger=msgspec.Raw(b'{"time": 3}'))
    found = client_vs_ledger([odd, with_ledger(answer(1, [(50, 1), (105, 1)]), 0.1, 0.048)])
    assert found is not None
    assert (found.n, found.unreadable) == (1, 1)


def test_the_servers_own_form_is_understood() -> None:
    own = render(
        LedgerRecord((Interval(LedgerStage.PREFILL, 0, 40_000_000),)), 0, 50_000_000, 45_000_000
    )
    record = msgspec.structs.replace(
        answer(0, [(47, 1), (53, 1)]), ledger=msgspec.Raw(msgspec.json.encode(own))
    )
    found = client_vs_ledger([record])
    assert found is not None
    assert found.ttft is not None
    assert found.ttft.p50_s == pytest.approx(0.002)
    assert dict(found.stage_s) == pytest.approx({"prefill": 0.04})
