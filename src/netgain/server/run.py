"""One server from start to end: engine, HTTP, signals."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import uvicorn

from netgain.config import Settings
from netgain.engine.client import EngineState
from netgain.engine.ipc_client import IpcEngineClient
from netgain.engine.messages import EngineInfo, LoadPart
from netgain.fleet.engine_process import EngineProcess, PrivateDirectory
from netgain.fleet.launcher import EngineStartError, LocalLauncher
from netgain.ledger.counters import EngineCounters
from netgain.models.chat_template_source import load_chat_template
from netgain.models.gguf_file import read_header
from netgain.models.sentence_encoder import SentenceEncoder
from netgain.models.tokenizer_source import load_tokenizer
from netgain.server.app import build_app
from netgain.server.encoder_service import EncoderService
from netgain.server.frontend import Frontend
from netgain.server.ledger_book import LedgerBook
from netgain.server.metrics import ServerMetrics
from netgain.server.model_names import ModelNames
from netgain.server.model_text import ModelText
from netgain.server.socket_timing import TimedHttpProtocol

_log = logging.getLogger(__name__)
_ABORT_GRACE_S: Final = 5
"""After the grace time requests are aborted; this long their last words may take."""


class _Server(uvicorn.Server):
    """uvicorn that drains the frontend first, and ends with exit code 0 on a signal."""

    def __init__(
        self,
        config: uvicorn.Config,
        frontend: Frontend,
        grace_s: float,
        on_stop: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._on_stop = on_stop
        self._frontend = frontend
        self._grace_s = grace_s

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn, but the signals are not raised again after the shutdown they asked for."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes nothing new; what runs may finish within the grace time, then it is aborted."""
        self._on_stop()
        self._frontend.drain()
        timer = asyncio.get_running_loop().call_later(self._grace_s, self._frontend.abort_all)
        try:
            await super().shutdown(sockets)
        finally:
            timer.cancel()


class ServerRun:
    """What one run of the server holds together.

    `on_load` hears each part of loading; `on_ready` what serves from now on, once each time;
    `on_stop` that no more are taken.
    """

    def __init__(
        self,
        settings: Settings,
        model_path: Path,
        names: Sequence[str],
        listener: socket.socket,
        directory: PrivateDirectory,
        spawn: Callable[[str], EngineProcess],
        first: EngineProcess,
        on_load: Callable[[LoadPart], None],
        on_ready: Callable[[EngineInfo], None],
        on_stop: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._model_path = model_path
        self._names = names
        self._listener = listener
        self._directory = directory
        self._spawn = spawn
        self._first = first
        self._on_load = on_load
        self._on_ready = on_ready
        self._on_stop = on_stop
        self._metrics = ServerMetrics()

    async def serve(self) -> None:
        """Serves until a signal. Raises `EngineStartError` when no engine can be brought up."""
        client = IpcEngineClient()
        launcher = LocalLauncher(self._spawn, client, self._directory, self._first)
        client.on_state = lambda state: self._state_changed(state, client, launcher)
        client.on_load = self._on_load
        client.on_step = self._count
        engine = asyncio.ensure_future(launcher.run())
        try:
            # The engine process loads meanwhile, on its own.
            text = self._load_text()
            encoder = self._load_encoder()
            await self._serve_http(client, text, encoder, engine)
        finally:
            await launcher.stop()
            engine.cancel()
            with contextlib.suppress(asyncio.CancelledError, EngineStartError):
                await engine
            client.close()

    async def _serve_http(
        self,
        client: IpcEngineClient,
        text: ModelText,
        encoder: EncoderService | None,
        engine: "asyncio.Future[None]",
    ) -> None:
        settings = self._settings.server
        frontend = Frontend(
            client,
            text,
            self._metrics,
            LedgerBook(settings.ledger_history),
            max_running=self._settings.engine.scheduler.max_num_seqs,
            max_queue=settings.max_queue,
        )
        config = uvicorn.Config(
            build_app(
                frontend,
                self._metrics,
                settings,
                ModelNames(self._names, None if encoder is None else encoder.encoder.name),
                encoder,
            ),
            http=TimedHttpProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=int(settings.shutdown_grace_s) + _ABORT_GRACE_S,
        )
        server = _Server(config, frontend, settings.shutdown_grace_s, self._on_stop)
        # What lives now lives to the end: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        http = asyncio.ensure_future(server.serve(sockets=[self._listener]))
        await asyncio.wait((http, engine), return_when=asyncio.FIRST_COMPLETED)
        if engine.done() and not http.done():
            server.should_exit = True
        await http
        text.close()
        if encoder is not None:
            encoder.close()
        if engine.done():
            engine.result()

    def _load_text(self) -> ModelText:
        path = self._model_path
        source = path if path.is_dir() else read_header(path)
        tokenizer = load_tokenizer(source)
        return ModelText(tokenizer, load_chat_template(source, tokenizer))

    def _load_encoder(self) -> EncoderService | None:
        settings = self._settings.server
        if settings.embedding_model is None:
            return None
        return EncoderService(SentenceEncoder.load(settings.embedding_model), settings.max_queue)

    def _state_changed(
        self, state: EngineState, client: IpcEngineClient, launcher: LocalLauncher
    ) -> None:
        metrics = self._metrics
        metrics.engine_state = state
        metrics.engine_restarts = launcher.restarts
        match state:
            case EngineState.READY:
                metrics.load = client.loaded
                metrics.info = client.info
                if client.info is not None:
                    self._on_ready(client.info)
            case EngineState.DEAD:
                metrics.engine.engine_ended()

    def _count(self, counters: EngineCounters) -> None:
        self._metrics.engine.update(counters)
