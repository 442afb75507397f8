"""A client that goes away takes its requests with it, wherever they are."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from tests.api.raw_http import RawRequest
from tests.api.serving import ServerUnderTest, serving, within

pytestmark = pytest.mark.model

COMPLETIONS = "/v1/completions"
LONG = {"prompt": "Once upon a time", "max_tokens": 1500, "ignore_eos": True}


@pytest.fixture(scope="module")
def narrow(default_gguf: Path) -> Iterator[ServerUnderTest]:
    """A server that runs one request at a time and lets two wait."""
    with serving("--max-num-seqs", "1", "--max-queue", "2") as server:
        yield server


def running(server: ServerUnderTest) -> float:
    return server.metric("netgain_requests_running")


def waiting(server: ServerUnderTest) -> float:
    return server.metric("netgain_requests_waiting")


def is_idle(server: ServerUnderTest) -> bool:
    return (
        running(server) == 0
        and waiting(server) == 0
        and server.metric("netgain_kv_blocks_used") == 0
    )


@pytest.mark.parametrize("stream", [False, True])
def test_leaving_during_decode_frees_everything(server: ServerUnderTest, stream: bool) -> None:
    aborted = server.metric("netgain_requests_total", finish_reason="abort")
    with RawRequest(server.port, COMPLETIONS, {**LONG, "stream": stream}) as request:
        decoded = server.metric("netgain_decode_tokens_total")
        if stream:
            request.read_until(b"data: ")
        assert within(10, lambda: server.metric("netgain_decode_tokens_total") > decoded)
    assert within(1, lambda: is_idle(server))
    assert within(
        1, lambda: server.metric("netgain_requests_total", finish_reason="abort") == aborted + 1
    )


def test_leaving_during_prefill_frees_everything(server: ServerUnderTest) -> None:
    prefilled = server.metric("netgain_prefill_tokens_total")
    aborted = server.metric("netgain_requests_total", finish_reason="abort")
    prompt = "".join(f"Item {number} is unlike any other. " for number in range(220))
    with RawRequest(server.port, COMPLETIONS, {"prompt": prompt, "max_tokens": 500}):
        assert within(10, lambda: server.metric("netgain_prefill_tokens_total") > prefilled)
        assert running(server) == 1
    assert within(1, lambda: is_idle(server))
    assert server.metric("netgain_requests_total", finish_reason="abort") == aborted + 1


def test_leaving_the_queue_frees_the_place(narrow: ServerUnderTest) -> None:
    with RawRequest(narrow.port, COMPLETIONS, LONG):
        assert within(10, lambda: running(narrow) == 1)
        with RawRequest(narrow.port, COMPLETIONS, LONG):
            assert within(10, lambda: waiting(narrow) == 1)
        assert within(1, lambda: waiting(narrow) == 0)
        assert running(narrow) == 1
        assert within(
            1, lambda: narrow.metric("netgain_requests_total", finish_reason="abort") == 1
        )
    assert within(1, lambda: is_idle(narrow))


def test_one_request_more_than_the_queue_holds_is_turned_away(narrow: ServerUnderTest) -> None:
    url = f"{narrow.url}{COMPLETIONS}"
    with (
        RawRequest(narrow.port, COMPLETIONS, LONG),
        RawRequest(narrow.port, COMPLETIONS, LONG),
        RawRequest(narrow.port, COMPLETIONS, LONG),
    ):
        assert within(10, lambda: running(narrow) == 1 and waiting(narrow) == 2)
        answer = httpx.post(url, json=LONG)
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert answer.json()["error"]["code"] == "queue_full"
    assert within(1, lambda: is_idle(narrow))
    assert httpx.post(url, json={"prompt": "x", "max_tokens": 1}).status_code == 200


def test_more_prompts_than_there_ever_is_room_for_are_not_asked_to_come_back(
    narrow: ServerUnderTest,
) -> None:
    answer = httpx.post(f"{narrow.url}{COMPLETIONS}", json={**LONG, "prompt": ["x"] * 4})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "prompt"
    assert "retry-after" not in answer.headers


def test_neighbours_do_not_notice(server: ServerUnderTest) -> None:
    fields: dict[str, object] = {
        "prompt": "The capital of France is",
        "max_tokens": 32,
        "temperature": 0,
        "ignore_eos": True,
    }

    def ask() -> object:
        answer = httpx.post(f"{server.url}{COMPLETIONS}", json=fields, timeout=60)
        return answer.json()["choices"][0]["text"]

    alone = ask()
    beside: list[object] = []
    neighbour = threading.Thread(target=lambda: beside.append(ask()))
    with RawRequest(server.port, COMPLETIONS, {**LONG, "stream": True}) as request:
        neighbour.start()
        request.read_until(b"data: ")
    neighbour.join()
    assert beside == [alone]


def test_an_engine_does_not_outlive_its_server(narrow: ServerUnderTest) -> None:
    engine = narrow.engine()
    with RawRequest(narrow.port, COMPLETIONS, {**LONG, "stream": True}) as request:
        request.read_until(b"data: ")
        narrow.process.kill()
        engine.wait(5)


def test_a_request_may_bear_the_name_of_another_ones_choice(server: ServerUnderTest) -> None:
    two = {"prompt": ["Once upon a time", "1, 2, 3,"], "max_tokens": 40, "ignore_eos": True}
    with ThreadPoolExecutor(1) as pool:
        pair = pool.submit(ask, server, "twin", two)
        assert within(10, lambda: running(server) == 2)
        assert ask(server, "twin-0", {"prompt": "x", "max_tokens": 1}).status_code == 200
        assert pair.result().status_code == 200


def ask(server: ServerUnderTest, id_: str, fields: dict[str, object]) -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/completions", json=fields, headers={"x-request-id": id_}, timeout=30
    )
