"""Who may ask, whose cache is whose, which pages may read, and what is never told."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest
from tests.api.asking import CHAT, COMPLETIONS, post, user
from tests.api.serving import ServerUnderTest, serving, within

KEY = "sécret-key"
SECRET = "unspeakable prompt"
GOOD = {"authorization": f"Bearer {KEY}".encode()}


@pytest.fixture(scope="module")
def locked(tiny_folder: Path) -> Iterator[ServerUnderTest]:
    """With a key, one origin, a small body limit, and a line for each request."""
    flags = ("--api-key", KEY, "--cors-origin", "http://page.example", "--max-body", "16KiB")
    with serving("--model", str(tiny_folder), "--log-requests", *flags) as server:
        yield server


def ask(server: ServerUnderTest, authorization: bytes | None) -> httpx.Response:
    headers = {} if authorization is None else {"authorization": authorization}
    return httpx.post(
        f"{server.url}{COMPLETIONS}",
        json={"prompt": "hello", "max_tokens": 1},
        headers=headers,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        b"",
        b"Bearer",
        b"Bearer wrong",
        b"Bearer " + KEY.encode()[:-1],
        b"Bearer " + KEY.encode() + b"x",
        b"Basic " + KEY.encode(),
        KEY.encode(),
        b"Bearer \xff\xfe",
        b"Bearer " + b"x" * 10_000,
    ],
)
def test_without_the_key_nothing_is_generated(
    locked: ServerUnderTest, authorization: bytes | None
) -> None:
    response = ask(locked, authorization)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert KEY not in response.text


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_with_the_key_everything_is(locked: ServerUnderTest, scheme: str) -> None:
    assert ask(locked, f"{scheme} {KEY}".encode()).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "guarded"),
    [
        ("GET", "/v1/models", True),
        ("POST", CHAT, True),
        ("POST", "/tokenize", True),
        ("POST", "/detokenize", True),
        ("POST", "/reset_prefix_cache", True),
        ("GET", "/v1/requests/x/ledger", True),
        ("GET", "/health", False),
        ("GET", "/ready", False),
        ("GET", "/metrics", False),
        ("GET", "/openapi.json", False),
    ],
)
def test_only_what_tells_nothing_is_open(
    locked: ServerUnderTest, method: str, path: str, guarded: bool
) -> None:
    status = httpx.request(method, f"{locked.url}{path}").status_code
    assert status == (401 if guarded else 200)


def test_the_official_client_sends_the_key(locked: ServerUnderTest) -> None:
    with locked.client("wrong") as client, pytest.raises(openai.AuthenticationError):
        client.models.list()


def test_the_key_may_come_from_the_environment(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NETGAIN_API_KEY", "from-outside")
    with serving("--model", str(tiny_folder)) as server:
        assert ask(server, b"Bearer from-outside").status_code == 200
        assert ask(server, None).status_code == 401


def test_the_description_says_that_a_key_is_needed(
    locked: ServerUnderTest, tiny: ServerUnderTest
) -> None:
    with_key = locked.get("/openapi.json").json()
    assert with_key["paths"][COMPLETIONS]["post"]["security"]
    assert "401" in with_key["paths"][COMPLETIONS]["post"]["responses"]
    assert "security" not in tiny.get("/openapi.json").json()["paths"][COMPLETIONS]["post"]


def test_pages_of_other_origins_may_read_nothing(
    locked: ServerUnderTest, tiny: ServerUnderTest
) -> None:
    def allowed(server: ServerUnderTest, origin: str) -> str | None:
        headers = {"origin": origin, **GOOD}
        answer = httpx.get(f"{server.url}/v1/models", headers=headers)  # type: ignore[arg-type]
        found: str | None = answer.headers.get("access-control-allow-origin")
        return found

    assert allowed(locked, "http://page.example") == "http://page.example"
    assert allowed(locked, "http://other.example") is None
    assert allowed(tiny, "http://page.example") is None


def test_a_page_may_ask_before_it_sends(locked: ServerUnderTest, tiny: ServerUnderTest) -> None:
    preflight = {
        "origin": "http://page.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
    }
    asked = httpx.options(f"{locked.url}{COMPLETIONS}", headers=preflight)
    assert asked.status_code == 200
    assert "POST" in asked.headers["access-control-allow-methods"]
    assert "authorization" in asked.headers["access-control-allow-headers"].lower()
    assert httpx.options(f"{tiny.url}{COMPLETIONS}", headers=preflight).status_code == 405


def test_a_body_over_the_operators_limit_is_refused(locked: ServerUnderTest) -> None:
    def send(size: int) -> httpx.Response:
        fields = {"prompt": "x", "max_tokens": 1, "user": "y" * size}
        return httpx.post(
            f"{locked.url}{COMPLETIONS}",
            json=fields,
            headers=GOOD,  # type: ignore[arg-type]
        )

    assert send(10_000).status_code == 200
    assert send(20_000).status_code == 413
    assert "16,384 bytes" in send(20_000).json()["error"]["message"]


def test_prompts_are_nowhere_but_in_their_answers(locked: ServerUnderTest) -> None:
    """Not in the metrics, the log, the ledger, or the words of a refusal."""
    seen: list[str] = []
    for fields in (
        {"prompt": SECRET, "max_tokens": 2},
        {"prompt": SECRET, "max_tokens": 2, "stop": [SECRET], "user": SECRET},
        {"prompt": [SECRET, 3]},
        {"prompt": SECRET, SECRET: 1},
        {"prompt": {SECRET: SECRET}},
        {"prompt": SECRET, "logit_bias": {SECRET: 1}, "top_p": 7},
        {"prompt": SECRET, "max_tokens": 10**6},
        {"prompt": SECRET, "temperature": SECRET},
    ):
        headers = {**GOOD, "x-request-id": "quiet"}
        response = httpx.post(
            f"{locked.url}{COMPLETIONS}",
            json=fields,
            headers=headers,  # type: ignore[arg-type]
        )
        if response.status_code == 200:
            id_ = response.headers["x-request-id"]
            ledger = httpx.get(f"{locked.url}/v1/requests/{id_}/ledger", headers=GOOD)  # type: ignore[arg-type]
            seen.append(ledger.text)
        elif SECRET not in fields and "logit_bias" not in fields:
            # The name of an unknown field is repeated: it is how the client finds its mistake.
            seen.append(response.text)
    post(locked, CHAT, {"messages": [user(SECRET)]})
    assert within(5, lambda: "request=quiet" in locked.output)
    everything = "\n".join([*seen, locked.get("/metrics").text, locked.output])
    assert SECRET not in everything
    assert SECRET.split()[0] not in everything


def test_a_line_of_the_log_has_the_ids_and_the_counts(locked: ServerUnderTest) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    headers = {
        **GOOD,
        "x-request-id": "logged",
        "traceparent": f"00-{trace}-b7ad6b7169203331-01",
    }
    httpx.post(
        f"{locked.url}{COMPLETIONS}",
        json={"prompt": "hello hello", "max_tokens": 3, "ignore_eos": True},
        headers=headers,  # type: ignore[arg-type]
    )
    line = f"request=logged trace={trace} finish=length prompt_tokens=2 generated_tokens=3"
    assert within(5, lambda: line in locked.output)


def test_nothing_is_logged_for_each_request_by_default(tiny: ServerUnderTest) -> None:
    post(tiny, COMPLETIONS, {"prompt": "hello", "max_tokens": 1})
    assert "request=" not in tiny.output


def test_a_key_and_a_salt_share_no_prefixes_with_other_salts(locked: ServerUnderTest) -> None:
    def cached(salt: str) -> int:
        response = httpx.post(
            f"{locked.url}{COMPLETIONS}",
            json={"prompt": "salted " * 20, "max_tokens": 1, "netgain": {"cache_salt": salt}},
            headers=GOOD,  # type: ignore[arg-type]
        )
        found: int = response.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
        return found

    assert cached("") == 0
    assert cached("mine") == 0
    assert cached("mine") > 0
    assert cached("") > 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--max-body", "many"), "max_body"),
        (("--max-body", "0"), "max_body"),
        (("--served-model-name", ""), "served_model_name"),
        (("--api-key", ""), "api_key"),
        (("--cors-origin", ""), "cors_origin"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_at_the_start(
    tiny_folder: Path, flags: tuple[str, ...], words: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "netgain", "serve", "--model", str(tiny_folder), *flags],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert words in done.stderr
    assert json.dumps(done.stderr).count("\\n") == 1
