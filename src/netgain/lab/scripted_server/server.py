"""The server: on the caller's event loop, or in a thread of its own."""

import asyncio
import re
import ssl
import threading
from collections.abc import Mapping
from typing import Final, Self

import msgspec
import uvloop

from netgain.lab.alarm import Alarm
from netgain.lab.scripted_server.answering import Answering, Served
from netgain.lab.scripted_server.connection import Connection, Request
from netgain.lab.scripted_server.rendering import Asked, Renderer, error_body
from netgain.lab.scripted_server.script import Script

_GENERATING: Final = {"/v1/chat/completions": True, "/v1/completions": False}
_ASKED: Final = msgspec.json.Decoder(Asked)
_MARK: Final = re.compile(r"\[script:([\w-]+)\]")
_BACKLOG: Final = 4096


class ScriptedServer:
    """Answers by script and keeps a log of what it did and when.

    Which script: the body's field `script` (a whole one, or a name), else `[script:NAME]` in the
    last message or the prompt, else `scripts` in turn, in the order requests became whole.
    `models` are the names it serves; an empty tuple leaves `/v1/models` out. `owner` is who the
    list of models says owns them. A request for anything else is answered 404. With `tls` it speaks
    https only.
    """

    def __init__(
        self,
        scripts: Mapping[str, Script] | Script | None = None,
        *,
        models: tuple[str, ...] = ("scripted",),
        owner: str = "scripted",
        api_key: str | None = None,
        keep_log: bool = True,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if isinstance(scripts, Script) or scripts is None:
            scripts = {"default": scripts or Script()}
        self._scripts = dict(scripts)
        self._in_turn = list(self._scripts.values())
        self._models = models
        self._owner = owner
        self._authorization = f"Bearer {api_key}" if api_key else None
        self._keep_log = keep_log
        self._host = host
        self._tls = tls
        self._stopped = False
        self._turn = 0
        self._requests = 0
        self._open: dict[Connection, Answering | None] = {}
        self._server: asyncio.Server | None = None
        self._alarm: Alarm | None = None
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.log: list[Served] = []
        """Requests that generate, in the order they became whole."""
        self.most_at_once = 0
        """The most of them under way at one time."""
        self.port = 0

    @property
    def url(self) -> str:
        """Where it answers."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}"

    async def start(self, port: int = 0) -> None:
        """Listens, on this loop; port 0 takes a free one."""
        loop = asyncio.get_running_loop()
        self._alarm = Alarm(loop)
        self._server = await loop.create_server(
            lambda: Connection(self._came, self._asked, self._left),
            self._host,
            port,
            backlog=_BACKLOG,
            ssl=self._tls,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops listening and cuts every connection."""
        assert self._server is not None
        assert self._alarm is not None
        self._server.close()
        self._stopped = True
        for connection in list(self._open):
            connection.abort()  # closing would wait for clients that do not read
        await self._server.wait_closed()
        self._alarm.close()

    def __enter__(self) -> Self:
        """Serves from a thread of its own."""
        ready = threading.Event()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(self._loop, ready), daemon=True)
        self._thread.start()
        ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def die(self) -> None:
        """Ends at once, with everything under way; once is enough. Only for one with a thread."""
        if self._thread is None or self._loop is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._thread = self._loop = None

    def _run(self, loop: asyncio.AbstractEventLoop, ready: threading.Event) -> None:
        asyncio.set_event_loop(loop)
        loop.run_until_complete(self.start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(self.stop())
        loop.close()

    def _came(self, connection: Connection) -> None:
        if self._stopped:
            connection.abort()
        self._open[connection] = None

    def _left(self, connection: Connection) -> None:
        answering = self._open.pop(connection)
        if answering is not None:
            answering.client_left()

    def _asked(self, connection: Connection, request: Request) -> None:
        assert self._alarm is not None
        served = Served(
            index=self._requests,
            path=request.path,
            body="",
            received_s=request.received_s,
            asked_s=request.asked_s,
        )
        answering = Answering(connection, served, request.keep_alive, self._alarm)
        self._open[connection] = answering
        if self._authorization is not None and request.authorization != self._authorization:
            answering.send(401, error_body("the API key is wrong", 401))
        elif request.path in _GENERATING:
            self._requests += 1
            if self._keep_log:
                served.body = request.body.decode("utf-8", "replace")
                self.log.append(served)
            self._generate(answering, served, request)
            self._count()
        elif request.path == "/v1/models" and self._models:
            cards = [{"id": m, "object": "model", "owned_by": self._owner} for m in self._models]
            answering.send(200, msgspec.json.encode({"object": "list", "data": cards}))
        elif request.path == "/log":
            answering.send(200, msgspec.json.encode(self.log))
        else:
            answering.send(404, error_body(f"there is no {request.path}", 404))

    def _count(self) -> None:
        under_way = sum(a is not None and not a.ended for a in self._open.values())
        self.most_at_once = max(self.most_at_once, under_way)

    def _generate(self, answering: Answering, served: Served, request: Request) -> None:
        try:
            asked = _ASKED.decode(request.body)
            script = self._script(asked)
        except (msgspec.DecodeError, LookupError) as error:
            answering.send(400, error_body(str(error), 400))
            return
        refused = _refused(script, request.body) if script.refuses else None
        if refused is not None:
            answering.send(400, error_body(f"there is no field {refused!r}", 400))
            return
        if asked.model is not None and self._models and asked.model not in self._models:
            answering.send(404, error_body(f"there is no model {asked.model!r}", 404))
            return
        start_s = request.asked_s + script.headers_s
        if script.status != 200:
            answering.send_at(start_s, script.status, error_body(script.message, script.status))
            return
        model = asked.model or next(iter(self._models), "scripted")
        chat = _GENERATING[request.path]
        renderer = Renderer(script, asked, chat, f"scripted-{served.index}", model)
        packets = renderer.packets()
        if asked.stream:
            answering.stream_at(
                start_s, packets, script.ending, script.gap_s, script.close_delimited
            )
        else:
            start_s += sum(packet.after_s for packet in packets)
            answering.send_at(start_s, 200, renderer.whole())

    def _script(self, asked: Asked) -> Script:
        if isinstance(asked.script, Script):
            return asked.script
        name = asked.script
        if name is None and (mark := _MARK.search(asked.last_text)):
            name = mark.group(1)
        if name is not None:
            if name not in self._scripts:
                raise LookupError(f"there is no script {name!r}")
            return self._scripts[name]
        script = self._in_turn[self._turn % len(self._in_turn)]
        self._turn += 1
        return script


def _refused(script: Script, body: bytes) -> str | None:
    """The first field of the body that the script does not know."""
    fields = msgspec.json.decode(body, type=dict[str, object])
    for name in script.refuses:
        outer, _, inner = name.partition(".")
        value = fields.get(outer)
        if outer in fields and (not inner or (isinstance(value, dict) and inner in value)):
            return name
    return None
