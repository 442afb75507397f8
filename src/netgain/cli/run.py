"""`netgain run`."""

import sys
from typing import Annotated

import typer

from netgain.cli import options
from netgain.ops.choices import BackendName, KVFormat, Numerics, WeightFormat


def run(
    prompt: Annotated[str, typer.Argument(help="The text to continue; - reads standard input.")],
    model: options.Model = "default",
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", help="Most tokens to generate.")
    ] = 128,
    temperature: options.Temperature = 1.0,
    top_p: options.TopP = 1.0,
    top_k: options.TopK = 0,
    seed: options.Seed = None,
    stop: options.Stop = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="Treat the prompt as a user's message.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print everything as one JSON object.")
    ] = False,
    max_model_len: options.MaxModelLen = None,
    kv_memory: options.KVMemory = None,
    threads: options.Threads = None,
    backend: options.Backend = BackendName.AUTO,
    weights: options.Weights = WeightFormat.AUTO,
    numerics: options.NumericsMode = Numerics.AUTO,
    kv_dtype: options.KVDType = KVFormat.AUTO,
) -> None:
    """Answer one prompt in this process: text on stdout, a one-line ledger on stderr.

    Examples:

      netgain run "The capital of France is" --temperature 0 --max-tokens 16

      netgain run --chat "Why is the sky blue?" --seed 1 --json

      git diff | netgain run - --chat
    """
    from netgain.cli.progress import FetchBar
    from netgain.cli.report import completion_json, ledger_line
    from netgain.engine.sampling_params import SamplingParams
    from netgain.errors import InvalidRequestError
    from netgain.models.store import ensure

    params = SamplingParams(
        temperature=temperature,
        top_p=top_p,
        top_k=top_k,
        seed=seed,
        max_tokens=max_tokens,
        stop=tuple(stop or ()),
    )
    text = _standard_input() if prompt == "-" else prompt
    if not text.strip():
        raise InvalidRequestError("the prompt is empty; give some text", "prompt")
    with FetchBar() as bar:
        path = ensure(model, bar.report)
    from netgain.engine.llm import LLM

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
        ids = llm.chat_prompt([{"role": "user", "content": text}]) if chat else text
        completion = None
        try:
            for delta in llm.stream(ids, params):
                completion = delta.completion
                if not json:
                    sys.stdout.write(delta.text)
                    sys.stdout.flush()
        except KeyboardInterrupt:
            typer.echo()
            raise typer.Exit(130) from None
        assert completion is not None
        if json:
            typer.echo(completion_json(text, completion, llm.info))
        else:
            typer.echo()
            typer.echo(ledger_line(completion), err=True)


def _standard_input() -> str:
    from netgain.errors import InvalidRequestError

    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"standard input is not UTF-8 text: {error.reason}") from error
