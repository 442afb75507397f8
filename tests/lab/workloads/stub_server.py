"""A server of few words: fixed answers by method and path, and what it was asked."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Routes = Mapping[tuple[str, str], tuple[int, str]]


class StubServer:
    """`asked` lists method and path of every request, `bodies` their JSON."""

    def __init__(self, routes: Routes) -> None:
        self.asked: list[tuple[str, str]] = []
        self.bodies: list[object] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                stub.bodies.append(json.loads(self.rfile.read(length) or b"null"))
                self._answer()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

            def _answer(self) -> None:
                stub.asked.append((self.command, self.path))
                status, text = routes.get((self.command, self.path), (404, "not found"))
                self.send_response(status)
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@contextmanager
def answering(routes: Routes) -> Iterator[StubServer]:
    server = StubServer(routes)
    try:
        yield server
    finally:
        server.close()
