import json
import socket
from typing import Any

import pytest

from netgain.errors import ConfigurationError
from netgain.lab.scripted_server.script import Script, UsageMode
from netgain.lab.scripted_server.server import ScriptedServer
from netgain.lab.target import (
    Dialect,
    Endpoint,
    TargetError,
    UnauthorizedError,
    UnreachableError,
    WrongModelError,
    WrongPathError,
    parse_url,
)
from netgain.lab.target_check import find_target
from tests.lab.scripted import COMPLETIONS


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NETGAIN_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://127.0.0.1:8000", Endpoint("127.0.0.1", 8000)),
        ("http://127.0.0.1:8000/v1/", Endpoint("127.0.0.1", 8000)),
        ("http://127.0.0.1:8000/v1/chat/completions", Endpoint("127.0.0.1", 8000)),
        ("localhost:8000", Endpoint("localhost", 8000)),
        ("https://api.example.com/v1", Endpoint("api.example.com", 443, True)),
        ("http://[::1]:80/deep/v1", Endpoint("::1", 80, False, "/deep")),
    ],
)
def test_a_base_url_may_end_in_what_belongs_behind_it(url: str, endpoint: Endpoint) -> None:
    assert parse_url(url) == endpoint


@pytest.mark.parametrize(
    "url", ["", "ftp://x", "http://", "http://h:99999", "http://h/?a=b", "http://h/ü"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(WrongPathError, match=r"give http|ASCII"):
        parse_url(url)


def test_the_model_is_found_if_none_is_named() -> None:
    with ScriptedServer(models=("first", "second")) as server:
        assert find_target(server.url).model == "first"
        assert find_target(server.url, model="second").model == "second"


def test_a_wrong_model_lists_those_there_are() -> None:
    with (
        ScriptedServer(models=("first", "second")) as server,
        pytest.raises(WrongModelError, match="first, second"),
    ):
        find_target(server.url, model="third")


def test_a_server_without_a_list_needs_a_model() -> None:
    with ScriptedServer(models=()) as server:
        assert find_target(server.url, model="any").model == "any"
        with pytest.raises(WrongPathError, match="404"):
            find_target(server.url)


def test_nobody_there_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError, match="start the server"):
            find_target(f"http://127.0.0.1:{taken.getsockname()[1]}")


def test_a_name_nobody_has_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match="nobody answers"):
        find_target("http://no.such.host.invalid:8000")


def test_a_wrong_key_is_said() -> None:
    with ScriptedServer(api_key="secret") as server:
        assert find_target(server.url, api_key="secret").api_key == "secret"
        with pytest.raises(UnauthorizedError, match="--api-key"):
            find_target(server.url, api_key="wrong")
        with pytest.raises(UnauthorizedError, match="--api-key"):
            find_target(server.url)


@pytest.mark.parametrize(
    "asked",
    [
        {"api_key": "secret\n"},
        {"api_key": "ключ"},
        {"headers": {"X": "a\r\nEvil: b"}},
        {"headers": {"X": "ü"}},
        {"headers": {"X Y": "a"}},
    ],
)
def test_what_cannot_stand_in_a_header_is_refused_unsent(asked: dict[str, Any]) -> None:
    with ScriptedServer() as server:
        with pytest.raises(ConfigurationError, match=r"API key|header") as refused:
            find_target(server.url, **asked)
        assert "secret" not in str(refused.value)
        assert not server.log


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETGAIN_API_KEY", "secret")
    with ScriptedServer(api_key="secret") as server:
        assert find_target(server.url).api_key == "secret"


def test_a_key_for_elsewhere_is_not_sent_in_the_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with ScriptedServer() as server:
        assert find_target(server.url).api_key is None


def test_a_server_that_takes_everything_is_asked_for_everything() -> None:
    with ScriptedServer() as server:
        target = find_target(server.url)
        (probe,) = [json.loads(served.body) for served in server.log]
    assert target.dialect == Dialect(running_usage=True)
    assert probe["max_tokens"] == 1


@pytest.mark.parametrize(
    ("refuses", "dialect"),
    [
        (("stream_options.continuous_usage_stats",), Dialect()),
        (("ignore_eos",), Dialect(running_usage=True, exact_length=False)),
        (("stream_options",), Dialect(usage=False)),
        (("max_tokens",), Dialect(running_usage=True, limit_field="max_completion_tokens")),
        (
            ("stream_options", "min_tokens", "max_tokens"),
            Dialect(usage=False, exact_length=False, limit_field="max_completion_tokens"),
        ),
    ],
)
def test_what_a_server_refuses_is_left_out(refuses: tuple[str, ...], dialect: Dialect) -> None:
    with ScriptedServer(Script(refuses=refuses)) as server:
        assert find_target(server.url, api=COMPLETIONS).dialect == dialect


def test_running_usage_that_is_ignored_is_not_counted_on() -> None:
    with ScriptedServer(Script(usage=UsageMode.FINAL)) as server:
        assert not find_target(server.url).dialect.running_usage


def test_a_field_that_cannot_be_left_out_is_an_error_in_the_servers_words() -> None:
    with (
        ScriptedServer(Script(refuses=("messages",))) as server,
        pytest.raises(TargetError, match="no field 'messages'"),
    ):
        find_target(server.url)


def test_only_a_netgain_server_is_asked_for_its_ledger() -> None:
    with ScriptedServer(owner="netgain") as server:
        assert find_target(server.url).dialect.ledger
        assert json.loads(server.log[-1].body)["netgain"] == {"ledger": True}
    with ScriptedServer() as server:
        assert not find_target(server.url).dialect.ledger
        assert "netgain" not in json.loads(server.log[-1].body)
