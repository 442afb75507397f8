"""`netgain serve`."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from netgain.cli import options
from netgain.config import EngineSettings, ServerSettings, Settings, checked

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

    from netgain.fleet.engine_process import EngineProcess, PrivateDirectory

_ENGINE = EngineSettings()
_SERVER = ServerSettings()


def serve(
    model: options.Model = _ENGINE.model.model,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = _SERVER.host,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = _SERVER.port,
    served_model_name: Annotated[
        list[str] | None,
        typer.Option(
            help="The name clients ask for; may be given several times.", show_default="the model's"
        ),
    ] = None,
    max_model_len: options.MaxModelLen = None,
    max_num_seqs: Annotated[
        int, typer.Option(help="Most requests in one step.")
    ] = _ENGINE.scheduler.max_num_seqs,
    max_num_batched_tokens: Annotated[
        int, typer.Option(help="Most tokens in one step.")
    ] = _ENGINE.scheduler.max_num_batched_tokens,
    step_time_target: Annotated[
        float,
        typer.Option(help="Seconds a step should take at most: prompts are cut to fit."),
    ] = _ENGINE.scheduler.step_time_target_s,
    kv_memory: options.KVMemory = None,
    block_tokens: Annotated[
        int, typer.Option(help="Tokens in one KV block.")
    ] = _ENGINE.kv.block_tokens,
    prefix_cache: Annotated[
        bool,
        typer.Option("--prefix-cache/--no-prefix-cache", help="Keep and reuse the KV of prompts."),
    ] = _ENGINE.kv.prefix_cache,
    threads: options.Threads = None,
    backend: options.Backend = _ENGINE.model.backend,
    weights: options.Weights = _ENGINE.model.weights,
    numerics: options.NumericsMode = _ENGINE.model.numerics,
    kv_dtype: options.KVDType = _ENGINE.kv.dtype,
    embedding_model: Annotated[
        str | None,
        typer.Option(
            help="A sentence encoder for /v1/embeddings: all-minilm-l6-v2, or a BERT checkpoint.",
            show_default="the served model's hidden states",
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(envvar="NETGAIN_API_KEY", help="Clients must send it as a bearer token."),
    ] = None,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="A web page's origin that may read answers; may be given several times, * is all.",
            show_default="none",
        ),
    ] = None,
    max_body: Annotated[
        str, typer.Option(help="Largest request body, for example 8MiB; more is answered 413.")
    ] = "8MiB",
    log_requests: Annotated[
        bool,
        typer.Option("--log-requests", help="A line for each ended request; never its text."),
    ] = _SERVER.log_requests,
    max_queue: Annotated[
        int, typer.Option(help="Requests that may wait; one more is answered 429.")
    ] = _SERVER.max_queue,
    request_timeout: Annotated[
        float | None,
        typer.Option(help="Deadline in seconds of requests that state none.", show_default="none"),
    ] = None,
    shutdown_grace: Annotated[
        float, typer.Option(help="Seconds that running requests may take when told to stop.")
    ] = _SERVER.shutdown_grace_s,
) -> None:
    """Serve a model over an OpenAI-compatible HTTP endpoint.

    Examples:

      netgain serve

      netgain serve --model ./model.gguf --port 9000 --kv-memory 2GiB

      NETGAIN_API_KEY=secret netgain serve --host 0.0.0.0
    """
    started_s = time.monotonic()
    settings = checked(
        Settings,
        {
            "engine": {
                "model": {
                    "model": model,
                    "max_model_len": max_model_len,
                    "threads": threads,
                    "backend": backend,
                    "weights": weights,
                    "numerics": numerics,
                },
                "scheduler": {
                    "max_num_seqs": max_num_seqs,
                    "max_num_batched_tokens": max_num_batched_tokens,
                    "step_time_target_s": step_time_target,
                },
                "kv": {
                    "memory_bytes": kv_memory,
                    "block_tokens": block_tokens,
                    "dtype": kv_dtype,
                    "prefix_cache": prefix_cache,
                },
            },
            "server": {
                "host": host,
                "port": port,
                "served_model_name": tuple(served_model_name or ()),
                "embedding_model": embedding_model,
                "api_key": api_key,
                "cors_origins": tuple(cors_origin or ()),
                "max_body_bytes": max_body,
                "log_requests": log_requests,
                "max_queue": max_queue,
                "request_timeout_s": request_timeout,
                "shutdown_grace_s": shutdown_grace,
            },
        },
    )
    _serve(settings, started_s)


def _serve(settings: Settings, started_s: float) -> None:
    from netgain.cli.progress import FetchBar
    from netgain.fleet.engine_process import EngineProcess, PrivateDirectory, engine_command
    from netgain.models.store import ensure
    from netgain.server.listen import listen

    def spawn(endpoint: str) -> EngineProcess:
        return EngineProcess(engine_command(endpoint, "engine-0"), settings.engine, endpoint)

    with listen(settings.server.host, settings.server.port) as listener:
        with FetchBar() as bar:
            model_path = ensure(settings.engine.model.model, bar.report)
        directory = PrivateDirectory()
        # The engine's imports and loading take longest: they start before our own.
        first = spawn(directory.next_endpoint())
        try:
            _run(settings, model_path, listener, directory, spawn, first, started_s)
        finally:
            if first.alive:
                first.kill()
            directory.remove()


def _run(
    settings: Settings,
    model_path: "Path",
    listener: "socket.socket",
    directory: "PrivateDirectory",
    spawn: "Callable[[str], EngineProcess]",
    first: "EngineProcess",
    started_s: float,
) -> None:
    import uvloop

    from netgain.cli.report import engine_line
    from netgain.server.listen import url_of
    from netgain.server.request_log import log_requests
    from netgain.server.run import ServerRun

    if settings.server.log_requests:
        log_requests()
    url = url_of(listener)
    names = settings.server.served_model_name or (settings.engine.model.model,)
    typer.echo(f"loading {names[0]}")
    run = ServerRun(
        settings,
        model_path,
        names,
        listener,
        directory,
        spawn,
        first,
        on_load=lambda part: typer.echo(f"  {part.name:<12} {part.seconds:6.2f} s"),
        on_ready=lambda info: typer.echo(
            f"{engine_line(info)}\nready at {url} in {time.monotonic() - started_s:.1f} s"
        ),
        on_stop=lambda: typer.echo(
            f"stopping: running requests have {settings.server.shutdown_grace_s:g} s to end"
        ),
    )
    uvloop.run(run.serve())
