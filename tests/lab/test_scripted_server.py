"""The scripted server as a thing that starts and ends."""

import socket
import threading

from netgain.lab.scripted_server.script import Script
from netgain.lab.scripted_server.server import ScriptedServer


def test_it_ends_though_a_client_does_not_read() -> None:
    talkative = Script(tokens=4_000_000, tokens_per_event=10_000, word=" word")
    body = b'{"prompt": "", "stream": true}'
    with (
        ScriptedServer(talkative) as server,
        socket.create_connection(("127.0.0.1", server.port)) as client,
    ):
        client.sendall(
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%s"
            % (len(body), body)
        )
        assert client.recv(1)
        ending = threading.Thread(target=server.die, daemon=True)
        ending.start()
        ending.join(10)
        assert not ending.is_alive()
