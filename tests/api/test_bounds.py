"""Everything a client can send has a bound; what is inside is served, what is outside is a 400."""

import json
import socket
import threading
from typing import Any

import httpx
import pytest
from tests.api.asking import CHAT, COMPLETIONS, answer, complete, post, user
from tests.api.serving import ServerUnderTest

PROMPT = "hello hello"
BAD: list[dict[str, object]] = [{}, {"prompt": ""}, {"prompt": "x", "top_p": 0}, {"messages": []}]


@pytest.mark.parametrize("temperature", [0, 1e-6, 1e-5, 1e-30])
def test_a_temperature_near_zero_is_greedy(tiny: ServerUnderTest, temperature: float) -> None:
    greedy = complete(tiny, PROMPT, temperature=0, max_tokens=20)["text"]
    drawn = [
        complete(tiny, PROMPT, temperature=temperature, seed=seed, max_tokens=20)["text"]
        for seed in (1, 2)
    ]
    assert drawn == [greedy, greedy]


@pytest.mark.parametrize("top_k", [0, -1, 10**7, 2**63 - 1])
def test_a_top_k_beyond_the_vocabulary_is_no_limit(tiny: ServerUnderTest, top_k: int) -> None:
    drawn = {"temperature": 1, "seed": 5, "max_tokens": 20}
    plain = complete(tiny, PROMPT, **drawn)["text"]
    assert complete(tiny, PROMPT, top_k=top_k, **drawn)["text"] == plain


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1),
        ("temperature", 101),
        ("temperature", 10**400),
        ("temperature", True),
        ("temperature", [1]),
        ("top_p", 0),
        ("top_p", -0.1),
        ("top_k", -2),
        ("top_k", 2**63),
        ("top_k", 1.5),
        ("repetition_penalty", 0),
        ("repetition_penalty", -1),
        ("min_p", -0.1),
        ("presence_penalty", 3),
        ("frequency_penalty", "1"),
        ("seed", 1.5),
        ("seed", -(2**63) - 1),
        ("max_tokens", 10**40),
        ("min_tokens", -1),
        ("n", "2"),
        ("n", 10**20),
        ("stop", [""]),
        ("stop", ["a", ""]),
        ("stop", ["a"] * 65),
        ("stop", ["a"] * 500_000),
        ("stop", "x" * (1 << 20)),
        ("stop", ["x" * (1 << 20)]),
        ("stop", "é" * 3000),
        ("stop", [["a"]]),
        ("stop", {"a": 1}),
        ("stop_token_ids", [-1]),
        ("stop_token_ids", [288]),
        ("stop_token_ids", [1] * 1025),
        ("stop_token_ids", ["1"]),
        ("model", "x" * 1000),
        ("netgain", {"cache_salt": "x" * 1025}),
        ("netgain", {"timeout_s": 0}),
        ("netgain", []),
        ("stream_options", {"include_usage": "yes"}),
        ("best_of", 2),
        ("tools", [{}]),
        ("tool_choice", "required"),
        ("response_format", {"type": "json_object"}),
        ("x" * 100_000, 1),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_name_and_told_what_to_do(
    tiny: ServerUnderTest, name: str, value: object
) -> None:
    response = post(tiny, COMPLETIONS, {"prompt": PROMPT, "max_tokens": 4, name: value})
    assert response.status_code == 400, response.text
    error = json.loads(response.text)["error"]
    assert error["param"].startswith(name[:64].partition(".")[0])
    assert len(error["message"]) < 600
    assert len(response.text) < 1000


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"max_tokens": 3000}, "max_tokens", "max_tokens asks for 3000"),
        ({"max_completion_tokens": 3000}, "max_completion_tokens", "max_completion_tokens asks"),
        ({"max_tokens": 5, "max_completion_tokens": 3000}, "max_completion_tokens", "at most 20"),
        ({"max_tokens": 5, "min_tokens": 6}, "min_tokens", "send max_tokens of at least 6"),
        (
            {"max_completion_tokens": 5, "min_tokens": 6},
            "min_tokens",
            "above max_completion_tokens (5): lower min_tokens, or send max_completion_tokens of",
        ),
    ],
)
@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_a_limit_that_is_too_high_is_called_what_the_client_calls_it(
    tiny: ServerUnderTest, path: str, fields: dict[str, object], param: str, words: str
) -> None:
    given = {"prompt": PROMPT} if path == COMPLETIONS else {"messages": [user("hello")]}
    response = post(tiny, path, {**given, **fields})
    assert response.status_code == 400
    error = response.json()["error"]
    assert error["param"] == param
    assert words in error["message"]


def test_a_default_that_is_too_low_is_said_to_be_one(tiny: ServerUnderTest) -> None:
    response = post(tiny, COMPLETIONS, {"prompt": PROMPT, "min_tokens": 30})
    assert "max_tokens (16 where it is not sent)" in response.json()["error"]["message"]


def test_a_default_that_does_not_fit_is_said_to_be_one(tiny: ServerUnderTest) -> None:
    response = post(tiny, COMPLETIONS, {"prompt": [5] * 2040})
    assert response.status_code == 400
    said = response.json()["error"]["message"]
    assert "max_tokens (where it is not sent) asks for 16 more" in said
    assert "ask for at most 8 tokens" in said


def test_a_list_of_tokens_that_is_too_long_is_not_looked_through(tiny: ServerUnderTest) -> None:
    response = post(tiny, "/detokenize", {"tokens": ["x"] * 3000})
    assert response.status_code == 400
    assert "has 3000 tokens; at most 2048" in response.json()["error"]["message"]


def test_an_answer_cannot_be_longer_than_the_context_leaves_it_room(tiny: ServerUnderTest) -> None:
    fields = {"messages": [user("hello")], "min_tokens": 3000}
    response = post(tiny, CHAT, fields)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "min_tokens"


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("name", ["temperature", "repetition_penalty", "top_p", "min_p"])
def test_numbers_that_are_none_are_refused_in_json(
    tiny: ServerUnderTest, name: str, literal: str
) -> None:
    response = httpx.post(
        f"{tiny.url}{COMPLETIONS}",
        content=f'{{"prompt": "x", "{name}": {literal}}}',
        headers={"content-type": "application/json"},
    )
    assert response.status_code == 400
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("count", [1, 4, 33, 64])
def test_so_many_stop_strings_are_taken(tiny: ServerUnderTest, count: int) -> None:
    stops = [f"\x01{number}" for number in range(count)]
    plain = complete(tiny, PROMPT, max_tokens=12)["text"]
    assert complete(tiny, PROMPT, max_tokens=12, stop=stops)["text"] == plain
    assert (
        complete(tiny, PROMPT, max_tokens=12, stop=[*stops[1:], plain[3]])["text"]
        == (plain[: plain.index(plain[3])])
    )


def test_of_a_name_that_comes_twice_the_last_value_counts(tiny: ServerUnderTest) -> None:
    response = httpx.post(
        f"{tiny.url}{COMPLETIONS}",
        content=b'{"prompt": "x", "ignore_eos": true, "max_tokens": 7, "max_tokens": 2}',
        headers={"content-type": "application/json"},
    )
    assert response.json()["usage"]["completion_tokens"] == 2


def nested(depth: int) -> bytes:
    return b'{"prompt": "x", "netgain": ' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"


@pytest.mark.parametrize(
    "body",
    [
        nested(10),
        nested(500),
        nested(100_000),
        b'{"messages": [[[[]]]]}',
        b'{"messages": [{"role": "user", "content": [[{"type": "text"}]]}]}',
        b'{"messages": [{"role": "user", "content": [{"type": "text", "text": {"a": "b"}}]}]}',
        b'{"messages": {"role": "user", "content": "x"}}',
        b'{"messages": [null]}',
        b'{"messages": [{"role": ["user"], "content": "x"}]}',
        b'{"messages": [{"role": "user", "content": "x", "tool_calls": [{"id": "1"}]}]}',
        b'{"prompt": "x", "prompt ": "y"}',
        b'{"": 1}',
    ],
)
@pytest.mark.parametrize("path", [COMPLETIONS, CHAT, "/tokenize", "/detokenize"])
def test_nested_junk_is_refused(tiny: ServerUnderTest, path: str, body: bytes) -> None:
    response = httpx.post(
        f"{tiny.url}{path}", content=body, headers={"content-type": "application/json"}
    )
    assert response.status_code == 400, response.text
    assert response.json()["error"]["message"]


def test_bad_requests_leave_neighbours_alone(tiny: ServerUnderTest) -> None:
    drawn: dict[str, Any] = {"temperature": 1, "seed": 9, "max_tokens": 800}
    alone = complete(tiny, PROMPT, **drawn)
    said: list[dict[str, Any]] = []
    neighbour = threading.Thread(target=lambda: said.append(complete(tiny, PROMPT, **drawn)))
    neighbour.start()
    while neighbour.is_alive():
        for fields in BAD:
            assert post(tiny, COMPLETIONS, fields).status_code == 400
    neighbour.join()
    assert said == [alone]


def test_more_choices_than_the_server_ever_holds_are_refused(tiny: ServerUnderTest) -> None:
    response = post(tiny, COMPLETIONS, {"prompt": ["x"] * 100, "n": 100})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "n"


def test_headers_without_end_are_refused(tiny: ServerUnderTest) -> None:
    with socket.create_connection(("127.0.0.1", tiny.port), timeout=10) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: x\r\n")
        # Just over the limit, so that nothing is left unread when the connection is closed.
        connection.sendall((b"x-more: " + b"y" * 8192 + b"\r\n") * 8)
        said = connection.recv(65536)
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["error"]["code"] == "head_too_large"


def said_to(server: ServerUnderTest, *pieces: bytes) -> tuple[int, dict[str, Any]]:
    """Status and body of the answer to bytes on a connection of their own."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        said = b""
        while data := connection.recv(65536):
            said += data
    head, _, body = said.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


@pytest.mark.parametrize("size", [100, 9_000, 65_536, 200_000])
@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
def test_a_large_head_is_refused_whatever_the_packets(
    tiny: ServerUnderTest, size: int, end: bytes
) -> None:
    head = b"GET /health HTTP/1.1\r\nhost: x\r\nx-more: " + b"y" * 70_000 + end
    pieces = [head[start : start + size] for start in range(0, len(head), size)]
    status, body = said_to(tiny, *pieces)
    assert (status, body["error"]["code"]) == (431, "head_too_large")


def test_a_head_within_the_limit_is_served(tiny: ServerUnderTest) -> None:
    head = b"GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-more: " + b"y" * 65_000
    assert said_to(tiny, head + b"\r\n\r\n")[0] == 200


@pytest.mark.parametrize("method", [b"FOO", b"get", b"X-Y"])
def test_an_unknown_method_is_called_that(tiny: ServerUnderTest, method: bytes) -> None:
    status, body = said_to(tiny, method + b" /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (status, body["error"]["code"]) == (400, "unknown_method")
    assert "send HTTP" not in body["error"]["message"]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/v1/completions/", "/health/", "/v1/models/"])
def test_a_slash_too_many_is_no_redirect(tiny: ServerUnderTest, method: str, path: str) -> None:
    response = httpx.request(method, f"{tiny.url}{path}", headers={"host": "evil.example"})
    assert response.status_code in (404, 405)
    assert "location" not in response.headers
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_what_is_no_http_is_told_so_in_json(tiny: ServerUnderTest) -> None:
    with socket.create_connection(("127.0.0.1", tiny.port), timeout=10) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        said = connection.recv(65536)
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert json.loads(body)["error"]["code"] == "no_http"


def test_large_bodies_and_pipelined_requests_are_no_large_heads(tiny: ServerUnderTest) -> None:
    body = json.dumps({"prompt": "x", "max_tokens": 1, "user": "y" * 200_000}).encode()
    one = (
        b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % len(body)
    ) + body
    with socket.create_connection(("127.0.0.1", tiny.port), timeout=30) as connection:
        connection.sendall(one * 2)
        said = b""
        while said.count(b"HTTP/1.1 200 OK") < 2 or not said.endswith(b"}"):
            data = connection.recv(65536)
            assert data, said
            said += data


def test_the_server_is_still_there(tiny: ServerUnderTest) -> None:
    """Last in this file: after all of the above."""
    assert answer(tiny, CHAT, messages=[user("hello")], max_tokens=1)["choices"]
    assert tiny.metric("netgain_http_errors_total", code="500") == 0
    assert tiny.metric("netgain_engine_restarts_total") == 0
