"""What each format of weights and of keys and values costs in accuracy, and saves in memory.

    python -m benchmarks.accuracy [--tokens 4096] [--weights LIST] [--kv LIST] [--json FILE|-]

Perplexity, and how often the likeliest next token is the same, against the same stored weights in
float32 with float32 keys and values on the native float32 kernels, which the oracle tests hold
against transformers. The text is prose of the standard library (`pydoc_data.topics`, the reference
manual's chapters on compound statements, naming, exceptions and the data model), in windows of
1,024 tokens that each begin without context. The standard library's text differs between Python
versions; its hash is printed.
"""

import argparse
import gc
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import show, write
from netgain.hardware.host import usable_cores
from netgain.kv.geometry import KVDType, KVGroup
from netgain.models.checkpoint import Checkpoint, open_checkpoint
from netgain.models.loading import load_model
from netgain.models.loading import resident_bytes as weight_bytes
from netgain.models.store import DEFAULT_MODEL, ensure
from netgain.models.tokenizer_source import load_tokenizer
from netgain.ops.choices import BackendName, KVFormat, WeightFormat
from netgain.ops.selection import make_backend
from netgain.ops.step_inputs import GroupInputs, StepInputs

WINDOW: Final = 1024
_BLOCK_TOKENS: Final = 16
_TOPICS: Final = ("compound", "objects", "naming", "exceptions", "specialnames")
_WEIGHTS: Final = ("as-stored", "int8", "int4", "bf16", "fp32")
_KV: Final = ("fp32", "fp16", "bf16", "int8")


@dataclass(frozen=True, slots=True)
class Text:
    """Windows of token ids, and the hash of the text they are of."""

    windows: tuple[NDArray[np.int32], ...]
    sha256: str


def prose(checkpoint: Checkpoint, tokens: int) -> Text:
    """The first `tokens` tokens, in whole windows. Raises `ValueError` where there are fewer."""
    from pydoc_data.topics import topics

    text = "".join(topics[name] for name in _TOPICS)
    tokenizer = load_tokenizer(checkpoint.header or checkpoint.path)
    ids = np.array(tokenizer.encode(text), np.int32)
    count = -(-tokens // WINDOW)
    if len(ids) < count * WINDOW:
        raise ValueError(f"the text has {len(ids)} tokens, fewer than {count} windows of {WINDOW}")
    windows = tuple(ids[: count * WINDOW].reshape(count, WINDOW))
    return Text(windows, hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True, slots=True)
class Score:
    """One format's predictions. `loss`: mean negative log likelihood of each next token, in nats;
    `likeliest`: the token that every position thinks comes next.
    """

    loss: float
    likeliest: NDArray[np.int64]

    @property
    def perplexity(self) -> float:
        """The exponential of the loss."""
        return math.exp(self.loss)

    def perplexity_ratio(self, reference: "Score") -> float:
        """1: as good as the reference."""
        return math.exp(self.loss - reference.loss)

    def agreement(self, reference: "Score") -> float:
        """Share of positions with the same likeliest token."""
        return float((self.likeliest == reference.likeliest).mean())


Logits = Callable[[StepInputs], NDArray[np.float32]]


def score(logits: Logits, groups: int, windows: Sequence[NDArray[np.int32]]) -> Score:
    """Scores all windows, each prefilled in one step at the same place of the pool."""
    losses: list[NDArray[np.float64]] = []
    likeliest: list[NDArray[np.int64]] = []
    for window in windows:
        logits_NV = logits(window_inputs(window, groups))
        likeliest.append(logits_NV.argmax(1))
        losses.append(_losses(logits_NV[:-1], window[1:]))
    return Score(float(np.concatenate(losses).mean()), np.concatenate(likeliest))


def window_inputs(window: NDArray[np.int32], groups: int) -> StepInputs:
    """One sequence from its beginning, logits wanted of every token."""
    count = len(window)
    blocks = np.arange(1, -(-count // _BLOCK_TOKENS) + 1, dtype=np.int32)[None, :]
    return StepInputs(
        token_ids_T=np.ascontiguousarray(window),
        positions_T=np.arange(count, dtype=np.int32),
        query_starts=np.array([0, count], np.int32),
        context_lens_R=np.array([count], np.int32),
        groups=(GroupInputs(blocks),) * groups,
        logit_rows_N=np.arange(count, dtype=np.int32),
    )


def _losses(logits_NV: NDArray[np.float32], next_N: NDArray[np.int32]) -> NDArray[np.float64]:
    """Negative log likelihood of each next token; a few rows at a time, vocabularies are large."""
    found = np.empty(len(next_N))
    for begin in range(0, len(next_N), 64):
        rows = logits_NV[begin : begin + 64].astype(np.float64)
        rows -= rows.max(1, keepdims=True)
        wanted = rows[np.arange(len(rows)), next_N[begin : begin + 64]]
        found[begin : begin + 64] = np.log(np.exp(rows).sum(1)) - wanted
    return found


@dataclass(frozen=True, slots=True)
class Result:
    """One combination of formats."""

    weights: WeightFormat
    kv: KVDType
    score: Score
    weight_bytes: int
    kv_token_bytes: int


def results(
    checkpoint: Checkpoint,
    text: Text,
    combinations: Sequence[tuple[WeightFormat, Sequence[KVDType]]],
) -> Iterator[Result]:
    """Scores the text with every combination; weights are loaded once for all their KV formats."""
    groups = checkpoint.config.kv_groups(_BLOCK_TOKENS)
    blocks = 1 + WINDOW // _BLOCK_TOKENS
    for weights, kinds in combinations:
        # The KV format belongs to the runner's groups; the one named here is not used.
        backend = make_backend(BackendName.NATIVE, usable_cores(), weights, KVFormat.FP32)
        model, _ = load_model(checkpoint, backend)
        for kind in kinds:
            kept = [replace(group, dtype=kind) for group in groups]
            runner = backend.runner(model, kept, blocks, WINDOW, 1)
            found = score(runner.logits, len(groups), text.windows)
            yield Result(weights, kind, found, weight_bytes(checkpoint, backend), _bytes(kept))
            del runner
        del model
        gc.collect()


def _bytes(groups: Sequence[KVGroup]) -> int:
    return sum(group.token_bytes for group in groups)


def combinations(
    weights: Sequence[WeightFormat], kinds: Sequence[KVDType]
) -> list[tuple[WeightFormat, Sequence[KVDType]]]:
    """The reference first; then every weight format with fp32 KV, so that errors of weights and of
    KV are told apart, and the first weight format with every KV format.
    """
    chosen = [
        (one, list(kinds) if one is weights[0] else [KVDType.FP32])
        for one in weights
        if one is not WeightFormat.FP32
    ]
    full = list(dict.fromkeys([KVDType.FP32, *(kinds if WeightFormat.FP32 in weights else ())]))
    return [(WeightFormat.FP32, full), *chosen]


def main() -> None:
    """Runs and prints."""
    arguments = _arguments()
    checkpoint = open_checkpoint(ensure(arguments.model))
    text = prose(checkpoint, arguments.tokens)
    tokens = len(text.windows) * WINDOW
    reference: Result | None = None
    rows: list[dict[str, object]] = []
    for result in results(checkpoint, text, combinations(arguments.weights, arguments.kv)):
        reference = reference or result
        rows.append(row(result, reference))
        print(", ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    show(f"Against fp32 weights with fp32 KV, {tokens} tokens of prose (measured)", rows)
    print(f"text: pydoc_data.topics ({', '.join(_TOPICS)}), sha256 {text.sha256}")
    extra = {"tokens": tokens, "window": WINDOW, "topics": _TOPICS, "text_sha256": text.sha256}
    write(arguments.json, rows, extra=extra)


def row(result: Result, reference: Result) -> dict[str, object]:
    """A line of the table."""
    return {
        "weights": str(result.weights),
        "kv": str(result.kv),
        "perplexity": result.score.perplexity,
        "ppl_%": 100 * (result.score.perplexity_ratio(reference.score) - 1),
        "top1_%": 100 * result.score.agreement(reference.score),
        "weights_mb": result.weight_bytes / 1e6,
        "kv_b_token": result.kv_token_bytes,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.accuracy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument(
        "--weights",
        type=lambda text: [WeightFormat(name) for name in text.split(",")],
        default=[WeightFormat(name) for name in _WEIGHTS],
        help="by commas; " + ", ".join(_WEIGHTS),
    )
    parser.add_argument(
        "--kv",
        type=lambda text: [KVDType(name) for name in text.split(",")],
        default=[KVDType(name) for name in _KV],
        help="by commas; " + ", ".join(_KV),
    )
    parser.add_argument("--json", type=Path, default=None)
    return parser.parse_args()


if __name__ == "__main__":
    main()
