"""`netgain plan chunk`: what a prefill chunk size does to neighbours and to the prompt itself."""

from dataclasses import dataclass
from typing import Final

from netgain.cost.bounds import count, positive
from netgain.cost.chunking import MOST_PROMPT_TOKENS, ChunkChoice, choice_of, largest_chunk_tokens
from netgain.cost.planner.setup import Setup
from netgain.cost.step_costs import prefill_s
from netgain.errors import ConfigurationError
from netgain.report.document import (
    Axis,
    Basis,
    Cell,
    Chart,
    Column,
    Figure,
    Report,
    Section,
    Series,
    Table,
)

CHUNKS: Final = (128, 256, 512, 1024, 2048, 4096, 8192)
_WORTH: Final = 1.1


@dataclass(frozen=True, slots=True)
class ChunkQuestion:
    """A prompt that arrives beside `batch` decodes (0: none) of `context_tokens` each.

    `itl_s` bounds the time between tokens of those decodes.
    """

    setup: Setup
    prompt_tokens: int = 8192
    batch: int = 32
    context_tokens: int = 2048
    itl_s: float = 0.05
    chunks: tuple[int, ...] = CHUNKS

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty traffic or no chunk."""
        count("prompt_tokens", self.prompt_tokens, most=MOST_PROMPT_TOKENS)
        count("batch", self.batch, least=0)
        count("context_tokens", self.context_tokens)
        positive("itl_s", self.itl_s)
        if not self.chunks:
            raise ConfigurationError("no chunk sizes: give at least one, such as 512,2048")
        for chunk in self.chunks:
            count("chunk", chunk)


def plan_chunk(q: ChunkQuestion) -> Report:
    """A table of chunk sizes, the largest within the bound, and what chunks do not help with."""
    steps = q.setup.steps()
    sizes = sorted({min(chunk, q.prompt_tokens) for chunk in q.chunks} | {q.prompt_tokens})
    choices = [choice_of(steps, q.prompt_tokens, size, q.batch, q.context_tokens) for size in sizes]
    largest = (
        largest_chunk_tokens(steps, q.prompt_tokens, q.batch, q.context_tokens, q.itl_s)
        if q.batch
        else q.prompt_tokens
    )
    alone = prefill_s(steps, 0, q.prompt_tokens)
    whole = choices[-1]
    basis, source = q.setup.basis, q.setup.source
    chosen = (
        choice_of(steps, q.prompt_tokens, largest, q.batch, q.context_tokens) if largest else None
    )
    figures = [
        Figure("plain_itl_s", f"Decode step of {q.batch} without a prompt", whole.plain_itl_s, "s",
               basis, f"context {q.context_tokens:,} each", source),
        Figure("alone_prefill_s", "The prompt alone, in one step", alone, "s", basis,
               f"{q.prompt_tokens:,} tokens", source),
        Figure("whole_itl_s", "Longest gap between tokens, the prompt in one step",
               whole.mixed_itl_s, "s", basis, "decodes and the whole prompt in one step", source),
        Figure("largest_chunk_tokens", f"Largest chunk within {q.itl_s * 1e3:g} ms", largest,
               "tokens", basis, "bisection on the last chunk's step, the longest", source),
    ]  # fmt: skip
    if not q.batch:
        figures = figures[1:2]
    elif chosen is not None:
        figures += [
            Figure("chunk_prefill_s", "The prompt with it", chosen.prefill_s, "s", basis,
                   f"{chosen.steps} steps beside {q.batch} decodes", source),
            Figure("chunk_overhead_s", "Of it for being cut", chosen.overhead_s, "s", basis,
                   f"{chosen.steps - 1} more steps that read the weights, "
                   f"{chosen.reread_tokens:,} positions of KV read again", source),
            Figure("chunk_interference_s", "What a token of each neighbour waits for a chunk",
                   chosen.interference_s, "s", basis,
                   f"{chosen.mixed_itl_s * 1e3:.4g} - {chosen.plain_itl_s * 1e3:.4g} ms",
                   "published: 150 against 30 ms (R74)"),
        ]  # fmt: skip
    return Report(
        f"Prefill chunks of {q.setup.shape.name} on {q.setup.device.name}",
        (
            Section(
                "The trade",
                text=(
                    "A step with a chunk lasts longer for everybody in it; smaller chunks mean "
                    "more steps, each of which reads the weights and the KV made so far again.",
                ),
                figures=tuple(figures),
                tables=(_table(q, choices),),
                charts=(_chart(q, choices),),
            ),
            Section("When it loses", text=tuple(_loses(q, whole, chosen, alone))),
        ),
        (_verdict(q, whole, largest, chosen),),
        (),
        q.setup.context()
        | {
            "prompt_tokens": q.prompt_tokens,
            "batch": q.batch,
            "context_tokens": q.context_tokens,
            "itl_bound_s": q.itl_s,
        },
    )


def _verdict(q: ChunkQuestion, whole: ChunkChoice, largest: int, chosen: ChunkChoice | None) -> str:
    bound = f"{q.itl_s * 1e3:g} ms"
    if not q.batch:
        return "Nobody decodes beside it: prefill the prompt in as few steps as memory allows."
    if chosen is None:
        return (
            f"No chunk keeps {bound}: the decodes alone take {whole.plain_itl_s * 1e3:.3g} ms. "
            "Lower --batch, or divide the model over more devices."
        )
    if largest == q.prompt_tokens:
        return f"The whole prompt in one step stays within {bound}: no chunks are needed."
    return (
        f"Chunks of {largest} tokens keep the gap between tokens within {bound} (a whole prompt: "
        f"{whole.mixed_itl_s * 1e3:.3g} ms) and make the prompt take "
        f"{chosen.prefill_s / whole.prefill_s:.2f} times as long. A trial decides."
    )


def _loses(
    q: ChunkQuestion, whole: ChunkChoice, chosen: ChunkChoice | None, alone: float
) -> list[str]:
    found = [
        "Chunks soften interference and do not remove it: while a prompt is prefilled each "
        "neighbour's tokens come a chunk's time apart. `netgain plan pd` compares with separate "
        "pools.",
    ]
    if not q.batch or q.prompt_tokens <= min(q.chunks):
        found.append("Short prompts and idle engines gain nothing from chunks.")
    if chosen is not None and chosen.prefill_s > _WORTH * whole.prefill_s:
        found.append(
            f"The bound costs the prompt {(chosen.prefill_s - whole.prefill_s) * 1e3:.3g} ms of "
            f"TTFT ({alone * 1e3:.3g} ms if it were alone)."
        )
    return found


def _table(q: ChunkQuestion, choices: list[ChunkChoice]) -> Table:
    basis = q.setup.basis
    rows: list[dict[str, Cell]] = [
        {
            "chunk": choice.chunk_tokens,
            "steps": choice.steps,
            "itl": choice.mixed_itl_s if q.batch else None,
            "interference": choice.interference_s if q.batch else None,
            "within": choice.mixed_itl_s <= q.itl_s if q.batch else None,
            "prefill": choice.prefill_s,
            "overhead": choice.overhead_s,
            "reread": choice.reread_tokens,
        }
        for choice in choices
    ]
    neighbours = (
        Column("itl", "Longest gap between tokens", "s", basis),
        Column("interference", "of it interference", "s", basis),
        Column("within", "Within the bound"),
    )
    return Table(
        "chunks",
        f"Chunk sizes for a prompt of {q.prompt_tokens:,} tokens",
        (
            Column("chunk", "Chunk", "tokens", Basis.EXACT),
            Column("steps", "Steps", "", Basis.EXACT),
            *(neighbours if q.batch else ()),
            Column("prefill", "Prompt's time", "s", basis),
            Column("overhead", "of it for being cut", "s", basis),
            Column("reread", "KV positions read again", "tokens", Basis.EXACT),
        ),
        tuple(rows),
    )


def _chart(q: ChunkQuestion, choices: list[ChunkChoice]) -> Chart:
    sizes = [choice.chunk_tokens for choice in choices]
    gaps = Series("longest gap between tokens", sizes, [c.mixed_itl_s for c in choices])
    return Chart(
        "chunk_trade",
        "Gap between tokens and the prompt's time by chunk",
        Axis("Chunk", "tokens", log=True),
        Axis("Time", "s", log=True),
        (
            *((gaps,) if q.batch else ()),
            Series("prompt's time", sizes, [c.prefill_s for c in choices]),
        ),
    )
