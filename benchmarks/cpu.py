"""How fast this machine runs the default model, and how near that is to what it could.

    python -m benchmarks.cpu [--rounds 3] [--json FILE|-]

The engine in one process, all techniques on, prefix cache emptied before every run. Bounds come
from ceilings measured in the same run: decode cannot be faster than reading every weight once per
step, prefill not faster than two multiply-adds per weight and token. Medians of the rounds.
"""

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Final

import torch

from benchmarks.report import show, write
from netgain import LLM, SamplingParams

_PREFILL: Final = 512
_DECODE_TOKENS: Final = 33
_PROMPT: Final = 32
_BATCHES: Final = (1, 4, 16)


def bandwidth_bytes_s() -> float:
    """Best of several reads of 540 MB, with the threads torch uses."""
    data = torch.ones(135_000_000)
    best = 0.0
    for _ in range(5):
        began = time.perf_counter()
        data.sum()
        best = max(best, data.nbytes / (time.perf_counter() - began))
    return best


def matmul_flop_s() -> float:
    """Best of several float32 products of 1024 x 1536 x 1536."""
    left, right = torch.ones(1024, 1536), torch.ones(1536, 1536)
    best = 0.0
    for _ in range(20):
        began = time.perf_counter()
        left @ right
        best = max(best, 2 * 1024 * 1536 * 1536 / (time.perf_counter() - began))
    return best


def prefill_tok_s(llm: LLM, seed: int) -> float:
    """Prompt tokens per second to the first token, chunks as the step-time target cuts them."""
    prompt = [(seed * 977 + i * 31) % 40_000 + 100 for i in range(_PREFILL)]
    llm.reset_prefix_cache()
    began = time.perf_counter()
    llm.generate([prompt], SamplingParams(temperature=0.0, max_tokens=1))
    return _PREFILL / (time.perf_counter() - began)


def decode_tok_s(llm: LLM, batch: int, seed: int) -> float:
    """Tokens per second of `batch` sequences after their prompts, wall time."""
    prompts = [[(seed + i) % 1000 + 100] * _PROMPT for i in range(batch)]
    llm.reset_prefix_cache()
    params = SamplingParams(temperature=0.0, max_tokens=_DECODE_TOKENS, ignore_eos=True)
    answers = llm.generate(prompts, params)
    last_prefill_s = max(answer.ledger.ttft_s or 0.0 for answer in answers)
    end_s = max(answer.ledger.e2e_s for answer in answers)
    return batch * (_DECODE_TOKENS - 1) / (end_s - last_prefill_s)


def main() -> None:
    """Runs and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    # A prompt is prefilled whole, so that chunks cut for latency do not count as slowness.
    with LLM(max_model_len=1024, step_time_target_s=60.0) as llm:
        weights = llm.info.weight_bytes
        bandwidth, flops = bandwidth_bytes_s(), matmul_flop_s()
        prefill_bound = flops / (2 * llm.info.parameters)
        runs = [
            [prefill_tok_s(llm, r), *(decode_tok_s(llm, b, r) for b in _BATCHES)]
            for r in range(arguments.rounds)
        ]
        names = [f"prefill {_PREFILL}", *(f"decode batch {batch}" for batch in _BATCHES)]
        bounds = [
            prefill_bound,
            *(min(batch * bandwidth / weights, prefill_bound) for batch in _BATCHES),
        ]
        rows: list[dict[str, object]] = []
        for index, (name, bound) in enumerate(zip(names, bounds, strict=True)):
            speed = statistics.median(run[index] for run in runs)
            rows.append(
                {"row": name, "tok_s": speed, "bound_tok_s": bound, "fraction": speed / bound}
            )
        used = os.times()
    show("Default model, fp32, torch reference backend (measured)", rows)
    print(f"read {bandwidth / 1e9:.1f} GB/s, fp32 matmul {flops / 1e9:.0f} GFLOP/s (measured)")
    print(f"CPU seconds: {used.user + used.system:.1f}")
    write(arguments.json, rows, ("torch",))


if __name__ == "__main__":
    main()
