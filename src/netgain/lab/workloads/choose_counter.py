"""Who counts tokens for a run."""

from collections.abc import Mapping

from netgain.lab.workloads.local_counter import LocalCounter
from netgain.lab.workloads.server_counter import ServerCounter, TokenizeUnavailableError
from netgain.lab.workloads.token_counter import TokenCounter, WordCounter


def choose_counter(
    tokenizer: str | None,
    base_url: str | None,
    model: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> TokenCounter:
    """The tokenizer that was named, else the server's own, else words.

    `tokenizer` is a model's name, a GGUF file or a folder with tokenizer.json; `model` and
    `headers` go with requests to `base_url`. Raises `ModelError` for a tokenizer that was named
    and cannot be had.
    """
    if tokenizer is not None:
        return LocalCounter.load(tokenizer)
    if base_url is not None:
        try:
            return ServerCounter(base_url, model, headers)
        except TokenizeUnavailableError:
            pass
    return WordCounter()
