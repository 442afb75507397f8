"""How an answer and its ledger are printed."""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from netgain.engine.llm import Completion
    from netgain.engine.messages import EngineInfo


def ledger_line(completion: "Completion") -> str:
    """One line: tokens, where the time went, and what the prefix cache did. All measured."""
    ledger = completion.ledger
    spent: dict[str, float] = {}
    for stage in ledger.stages:
        spent[stage.stage] = spent.get(stage.stage, 0.0) + stage.end_s - stage.start_s
    # What takes under a tenth of a percent is there, in --json; a line has room for the rest.
    shown = [f"{name} {_time(s)}" for name, s in spent.items() if s >= ledger.e2e_s / 1000]
    generated = len(completion.token_ids)
    parts = [
        f"{len(completion.prompt_token_ids)} prompt + {generated} generated tokens",
        f"e2e {_time(ledger.e2e_s)}",
    ]
    if ledger.ttft_s is not None:
        parts.append(f"ttft {_time(ledger.ttft_s)}")
        if generated > 1:
            tpot_s = (ledger.e2e_s - ledger.ttft_s) / (generated - 1)
            parts.append(f"tpot {_time(tpot_s)}")
    if completion.cached_tokens:
        parts.append(f"{completion.cached_tokens} cached")
    return f"[{' | '.join(parts)} | {', '.join(shown)}]"


def engine_line(info: "EngineInfo") -> str:
    """One line: who computes, and in which formats."""
    moved = (
        "" if info.divergence is None else f" (logits move by {info.divergence:.1g} with company)"
    )
    return (
        f"{info.backend} ({info.isa}), {info.threads} threads; weights {info.weights}, "
        f"KV {info.kv_dtype}, numerics {info.numerics}{moved}"
    )


def completion_json(prompt: str, completion: "Completion", info: "EngineInfo") -> str:
    """Everything known about an answer, as one JSON object."""
    prompt_tokens = len(completion.prompt_token_ids)
    value = {
        "model": info.model_name,
        "prompt": prompt,
        "text": completion.text,
        "finish_reason": completion.finish_reason,
        "prompt_token_ids": completion.prompt_token_ids,
        "token_ids": completion.token_ids,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(completion.token_ids),
            "total_tokens": prompt_tokens + len(completion.token_ids),
            "prompt_tokens_details": {"cached_tokens": completion.cached_tokens},
        },
        "ledger": completion.ledger,
        "engine": info,
    }
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
