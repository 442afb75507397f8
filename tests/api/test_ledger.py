"""The ledger of every request closes, and agrees with the client's own watch."""

import json
import random
import socket
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from tests.api.raw_http import RawAnswer, RawRequest
from tests.api.serving import ServerUnderTest, within

pytestmark = pytest.mark.model

REQUESTS = 200
WORDS = ("river", "stone", "seven", "under", "light", "north", "green", "paper", "salt", "wind")
Ledger = Mapping[str, object]


def random_request(draw: random.Random) -> dict[str, object]:
    words = draw.choices(WORDS, k=draw.choice((1, 3, 10, 40)))
    return {
        "prompt": " ".join(words),
        "max_tokens": draw.choice((1, 2, 4)),
        "temperature": draw.choice((0, 1)),
        "stream": draw.random() < 0.5,
        "netgain": {"ledger": True},
    }


def ask(server: ServerUnderTest, fields: dict[str, object]) -> RawAnswer:
    with RawRequest(server.port, "/v1/completions", fields) as request:
        return request.answer()


def ledger_in(answer: RawAnswer) -> Ledger:
    """From the body, or from a stream's last data event."""
    text = answer.body.decode()
    if "chunked" in answer.headers.get("transfer-encoding", ""):
        events = [line for line in text.splitlines() if line.startswith("data: ")]
        assert events[-1] == "data: [DONE]"
        text = events[-2].removeprefix("data: ")
    found: Ledger = json.loads(text)["netgain"]["ledger"]
    return found


def stored_ledger(server: ServerUnderTest, answer: RawAnswer) -> Ledger:
    stored = server.get(f"/v1/requests/{answer.headers['x-request-id']}/ledger")
    found: Ledger = stored.raise_for_status().json()
    return found


def assert_closes(ledger: Ledger) -> None:
    """Contiguous named stages from the first byte to the end."""
    stages = ledger["stages"]
    assert isinstance(stages, list)
    assert stages[0]["stage"] == "receive"
    assert stages[0]["start_s"] == 0
    for before, after in pairwise(stages):
        assert before["end_s"] == after["start_s"], (before, after)
        assert before["end_s"] > before["start_s"]
    names = [stage["stage"] for stage in stages]
    assert "prefill" in names
    assert names[-1] == "deliver"


@pytest.fixture(scope="module")
def answers(server: ServerUnderTest) -> list[RawAnswer]:
    """Two hundred random requests, eight at a time."""
    draw = random.Random(20)
    requests = [random_request(draw) for _ in range(REQUESTS)]
    with ThreadPoolExecutor(8) as clients:
        found = list(clients.map(lambda fields: ask(server, fields), requests))
    assert all(answer.status == 200 for answer in found)
    return found


def other_over_allowance(ledger: Ledger) -> float:
    other, e2e = ledger["other_s"], ledger["e2e_s"]
    assert isinstance(other, float)
    assert isinstance(e2e, float)
    assert other >= 0
    return other / max(0.001, 0.01 * e2e)


def test_ledgers_in_the_responses_close(answers: list[RawAnswer]) -> None:
    ledgers = [ledger_in(answer) for answer in answers]
    for ledger in ledgers:
        assert_closes(ledger)
    assert statistics.quantiles(map(other_over_allowance, ledgers), n=100)[98] <= 1


def test_stored_ledgers_close_and_agree_with_the_client(
    server: ServerUnderTest, answers: list[RawAnswer]
) -> None:
    ledgers = [stored_ledger(server, answer) for answer in answers]
    for ledger in ledgers:
        assert_closes(ledger)
    assert statistics.quantiles(map(other_over_allowance, ledgers), n=100)[98] <= 1
    lags: list[float] = []
    for answer, ledger in zip(answers, ledgers, strict=True):
        e2e = ledger["e2e_s"]
        assert isinstance(e2e, float)
        lags.append(answer.e2e_s - e2e)
    # The client's watch starts before the first byte arrives and stops after the last one left.
    assert min(lags) >= 0
    assert statistics.median(lags) < 0.02


def missing_over_allowance(server: ServerUnderTest, fields: dict[str, object]) -> float:
    """What the client waited beyond the sum of the stages, at its own socket."""
    answer = ask(server, fields)
    stages = stored_ledger(server, answer)["stages"]
    assert isinstance(stages, list)
    named_s: float = sum(stage["end_s"] - stage["start_s"] for stage in stages)
    return (answer.e2e_s - named_s) / max(0.001, 0.01 * answer.e2e_s)


def test_the_stages_account_for_what_the_client_waited(server: ServerUnderTest) -> None:
    """Two hundred requests, one at a time, against the client's own watch at its socket.

    Its time holds what no server can see: the kernel's and the client's own share, which whoever
    else uses the machine's cores, or its host's, makes longer now and then. A stage that the ledger
    lacks is missing whenever its request is asked again, a delay from outside is not: each request
    has up to four tries.
    """
    draw = random.Random(21)
    first: list[float] = []
    best: list[float] = []
    for _ in range(REQUESTS):
        fields = random_request(draw)
        tries = [missing_over_allowance(server, fields)]
        while tries[-1] > 1 and len(tries) < 4:
            tries.append(missing_over_allowance(server, fields))
        assert min(tries) >= 0
        first.append(tries[0])
        best.append(min(tries))
    figures = f"first tries: p50 {statistics.median(first):.2f}, best: {sorted(best)[-4:]}"
    assert statistics.median(first) <= 1, figures
    assert statistics.quantiles(best, n=100)[98] <= 1, figures


def test_stages_and_handoffs_say_what_they_should(answers: list[RawAnswer]) -> None:
    for answer in answers:
        ledger = ledger_in(answer)
        handoffs = ledger["handoffs"]
        assert isinstance(handoffs, list)
        kinds = {handoff["kind"]: handoff for handoff in handoffs}
        assert {"ipc_submit", "ipc_output"} <= set(kinds)
        for handoff in kinds.values():
            assert handoff["end_s"] >= handoff["start_s"] >= 0
            assert handoff["end_s"] - handoff["start_s"] >= handoff["overlapped_s"] >= 0
        assert kinds["ipc_submit"]["bytes"] > 0
        assert ledger["cost_s"] >= 0  # type: ignore[operator]
        assert ledger["ttft_s"] <= ledger["e2e_s"]  # type: ignore[operator]


def test_waiting_for_a_slow_body_is_receive(server: ServerUnderTest) -> None:
    body = json.dumps({"prompt": "One", "max_tokens": 1, "netgain": {"ledger": True}}).encode()
    head = (
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        first_s = time.monotonic()
        connection.sendall(head.encode() + body[:10])
        server.get("/health")  # by its answer the first half has been seen
        seen_s = time.monotonic()
        while time.monotonic() - seen_s < 0.1:
            server.get("/health")
        rest_s = time.monotonic()
        connection.sendall(body[10:])
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
        end_s = time.monotonic()
    ledger = json.loads(answer.partition(b"\r\n\r\n")[2])["netgain"]["ledger"]
    receive = ledger["stages"][0]
    assert receive["stage"] == "receive"
    assert receive["end_s"] >= rest_s - seen_s
    assert ledger["e2e_s"] - receive["end_s"] <= end_s - rest_s
    assert ledger["e2e_s"] <= end_s - first_s


def test_an_answer_crosses_in_one_message_a_step(server: ServerUnderTest) -> None:
    fields: dict[str, object] = {
        "prompt": "Once upon a time",
        "max_tokens": 12,
        "ignore_eos": True,
        "netgain": {"ledger": True},
    }
    handoffs = ledger_in(ask(server, fields))["handoffs"]
    assert isinstance(handoffs, list)
    (output,) = (handoff for handoff in handoffs if handoff["kind"] == "ipc_output")
    assert (output["tokens"], output["count"]) == (12, 12)


def test_a_request_that_runs_has_no_ledger_yet(server: ServerUnderTest) -> None:
    fields: dict[str, object] = {
        "prompt": "Once upon a time",
        "max_tokens": 400,
        "stream": True,
        "ignore_eos": True,
    }
    with RawRequest(server.port, "/v1/completions", fields) as request:
        head = request.read_until(b"data: ").decode()
        id_ = head.split("x-request-id: ")[1].split("\r\n")[0]
        answer = server.get(f"/v1/requests/{id_}/ledger")
        assert answer.status_code == 409
        assert answer.json()["error"]["code"] == "request_running"
    assert within(1, lambda: server.get(f"/v1/requests/cmpl-{id_}/ledger").status_code == 200)


def test_stage_seconds_are_in_the_metrics(
    server: ServerUnderTest, answers: list[RawAnswer]
) -> None:
    for stage in ("receive", "tokenize", "ipc", "prefill", "decode", "detokenize", "deliver"):
        assert server.metric("netgain_stage_seconds_total", stage=stage) > 0
    assert server.metric("netgain_ttft_seconds_count") >= len(answers)
    assert server.metric("netgain_load_seconds", part="import") > 0
