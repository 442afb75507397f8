"""`netgain chat`."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from netgain.cli import options
from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat

if TYPE_CHECKING:
    from netgain.engine.llm import LLM
    from netgain.engine.sampling_params import SamplingParams


def chat(
    model: options.Model = "default",
    system: Annotated[
        str | None, typer.Option(help="A system message.", show_default="the template's")
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", "-n", help="Most tokens of an answer.", show_default="no limit"
        ),
    ] = None,
    temperature: options.Temperature = 0.2,
    top_p: options.TopP = 0.9,
    top_k: options.TopK = 0,
    seed: options.Seed = None,
    stop: options.Stop = None,
    ledger: Annotated[
        bool, typer.Option("--ledger/--no-ledger", help="A line after each answer.")
    ] = True,
    max_model_len: options.MaxModelLen = None,
    kv_memory: options.KVMemory = None,
    threads: options.Threads = None,
    backend: options.Backend = BackendName.AUTO,
    weights: options.Weights = WeightFormat.AUTO,
    numerics: options.NumericsMode = Numerics.AUTO,
    kv_dtype: options.KVDType = KVFormat.AUTO,
) -> None:
    """Talk with a model in this process; the prefix cache keeps the conversation.

    Ctrl-C cuts an answer short, Ctrl-D or /quit ends, /new starts over.

    Examples:

      netgain chat

      netgain chat --system "Answer in one sentence." --temperature 0
    """
    from netgain.cli.progress import FetchBar
    from netgain.engine.sampling_params import SamplingParams
    from netgain.models.store import ensure

    params = SamplingParams(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
    )
    with FetchBar() as bar:
        path = ensure(model, bar.report)
    from netgain.engine.llm import LLM

    # Arrow keys and history in input(), where the interpreter has it.
    with suppress(ImportError):
        import readline  # noqa: F401

    with LLM(
        str(path),
        max_model_len=max_model_len,
        kv_memory=kv_memory,
        threads=threads,
        backend=backend,
        weights=weights,
        numerics=numerics,
        kv_dtype=kv_dtype,
    ) as llm:
        if sys.stdin.isatty():
            typer.echo(f"{llm.info.model_name}: /new starts over, /quit ends.", err=True)
        _converse(llm, params, system, show_ledger=ledger)


def _converse(
    llm: "LLM", params: "SamplingParams", system: str | None, *, show_ledger: bool
) -> None:
    from netgain.errors import InvalidRequestError

    opening = [{"role": "system", "content": system}] if system else []
    messages = list(opening)
    for line in _lines():
        if line == "/quit":
            return
        if line == "/new":
            messages = list(opening)
            continue
        if line.startswith("/"):
            typer.secho(
                "/new starts over, /quit ends; anything else is said to the model", err=True
            )
            continue
        messages.append({"role": "user", "content": line})
        try:
            answer = _answer(llm, params, messages, show_ledger=show_ledger)
        except InvalidRequestError as error:
            messages.pop()
            typer.secho(f"{error} (/new starts over)", fg=typer.colors.RED, err=True)
            continue
        messages.append({"role": "assistant", "content": answer})


def _lines() -> Iterator[str]:
    """What the user types, blank lines left out, until end of input."""
    prompt = "> " if sys.stdin.isatty() else ""
    while True:
        try:
            line = input(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            typer.echo(err=True)
            return
        if line:
            yield line


def _answer(
    llm: "LLM", params: "SamplingParams", messages: list[dict[str, str]], *, show_ledger: bool
) -> str:
    from netgain.cli.report import ledger_line

    pieces: list[str] = []
    deltas = llm.stream(llm.chat_prompt(messages), params)
    try:
        for delta in deltas:
            pieces.append(delta.text)
            sys.stdout.write(delta.text)
            sys.stdout.flush()
            if delta.completion is not None and show_ledger:
                typer.echo()
                typer.secho(ledger_line(delta.completion), dim=True, err=True)
                return "".join(pieces)
        typer.echo()
    except KeyboardInterrupt:
        typer.secho(" (cut short)", dim=True, err=True)
    finally:
        deltas.close()
    return "".join(pieces)
