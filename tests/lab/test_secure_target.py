"""Servers behind TLS, and those on IPv6."""

import socket
import threading
from pathlib import Path

import pytest

from netgain.lab.load_plan import ClosedLoad, Ended, LoadPlan
from netgain.lab.scripted_server.script import Script
from netgain.lab.scripted_server.server import ScriptedServer
from netgain.lab.target import UnreachableError, UntrustedError
from netgain.lab.target_check import find_target
from netgain.lab.workloads.server_counter import ServerCounter, TokenizeUnavailableError
from tests.lab.certificate import self_signed
from tests.lab.scripted import ask, conversation, load, target_of


def test_a_certificate_nobody_signed_is_refused_with_the_way_out(tmp_path: Path) -> None:
    _, tls = self_signed(tmp_path)
    with (
        ScriptedServer(tls=tls) as server,
        pytest.raises(UntrustedError, match=r"self.signed certificate.*SSL_CERT_FILE"),
    ):
        find_target(server.url)


def test_a_certificate_that_is_named_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = self_signed(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with ScriptedServer(Script(tokens=3), tls=tls) as server:
        target = find_target(server.url)
        plan = LoadPlan(target=target, load=ClosedLoad(2), requests=6)
        outcome, records = load(plan, [conversation(f"prompt {i}") for i in range(6)])
    assert outcome.ended is Ended.COMPLETE
    assert [record.output_tokens for record in records] == [3] * 6


def test_what_is_asked_beside_the_load_trusts_the_same_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, tls = self_signed(tmp_path)
    with ScriptedServer(tls=tls) as server:
        with pytest.raises(TokenizeUnavailableError, match=r"self.signed certificate"):
            ServerCounter(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(TokenizeUnavailableError, match="answered 404"):
            ServerCounter(server.url)


def test_a_file_of_certificates_that_is_not_there_does_not_matter_without_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    with ScriptedServer() as server, pytest.raises(TokenizeUnavailableError, match="404"):
        ServerCounter(server.url)


def test_tls_with_a_server_without_it_is_said() -> None:
    with ScriptedServer() as server, pytest.raises(UntrustedError, match="http://"):
        find_target(server.url.replace("http:", "https:"))


def test_a_server_that_wants_tls_is_recognised(tmp_path: Path) -> None:
    _, tls = self_signed(tmp_path)
    with ScriptedServer(tls=tls) as server, pytest.raises(UnreachableError, match="https"):
        find_target(server.url.replace("https:", "http:"))


def test_a_proxy_in_the_environment_is_not_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with ScriptedServer() as server:
        assert ask(target_of(server.url)).record.failure is None
        with pytest.raises(TokenizeUnavailableError, match="answered 404"):
            ServerCounter(server.url)


def test_a_server_on_ipv6_is_asked_by_its_address() -> None:
    try:
        with socket.socket(socket.AF_INET6) as free:
            free.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with ScriptedServer(Script(tokens=2), host="::1") as server:
        assert server.url.startswith("http://[::1]:")
        assert ask(find_target(server.url)).record.output_tokens == 2


def test_a_redirect_says_where_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            client, _ = listening.accept()
            with client:
                client.recv(65536)
                client.sendall(
                    b"HTTP/1.1 301 Moved\r\nlocation: https://there/v1/models\r\n"
                    b"content-length: 0\r\n\r\n"
                )

        answering = threading.Thread(target=answer)
        answering.start()
        with pytest.raises(Exception, match="redirects to https://there/v1/models"):
            find_target(f"http://127.0.0.1:{listening.getsockname()[1]}")
        answering.join()
