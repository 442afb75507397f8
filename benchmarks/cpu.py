"""How fast this machine runs the default model, and how near that is to what it could.

    python -m benchmarks.cpu [--quick] [--rounds 5] [--json FILE|-]
        [--weights auto] [--kv-dtype auto] [--backend auto] [--model NAME]

The engine in one process, all techniques on. Everything printed was measured in this run, except
`bound_tok_s`: the least time that reading and multiplying can take (benchmarks/roofline.py) on a
machine with the ceilings that are measured before, between and after the rounds. Speeds are medians
of the rounds. `host_ms` is what a step takes outside the kernels; `cores` are CPU seconds of this
process over wall time. `start` is `netgain serve` in its own processes.
"""

import argparse
import os
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from benchmarks.host_work import StepClock, host_s, watch
from benchmarks.report import show, write
from benchmarks.roofline import ModelWork, StepWork, bound, work_of
from benchmarks.served import POOL_TOKENS, Served, serve_once
from netgain import LLM, SamplingParams
from netgain.kv.geometry import KVDType
from netgain.models.checkpoint import open_checkpoint
from netgain.models.store import DEFAULT_MODEL, ensure
from netgain.ops.choices import BackendName, KVFormat, WeightFormat
from netgain.ops.cpu.ceilings import CeilingMeter, Ceilings

_TOKEN_IDS: Final = (100, 40_000)
_BLOCK_TOKENS: Final = 16
_SEQUENCES: Final = 16


@dataclass(frozen=True, slots=True)
class Row:
    """`batch` prompts of `prompt` tokens at once, each answered with `tokens`.

    One token: a prefill row, timed to it. More: a decode row, timed from the first to the last.
    `cached`: prompts are the same in every round and come from the prefix cache, so that a long
    context does not cost a long prefill every time.
    """

    name: str
    batch: int
    prompt: int
    tokens: int
    cached: bool = False

    @property
    def decodes(self) -> bool:
        """Whether it is a decode row."""
        return self.tokens > 1

    @property
    def timed_tokens(self) -> int:
        """Tokens of the time that is measured."""
        return self.batch * (self.tokens - 1 if self.decodes else self.prompt)

    def prompts(self, round_: int) -> list[list[int]]:
        """Token ids that no other row and, unless they are to be cached, no other round has."""
        source = random.Random(f"{self.name}, round {0 if self.cached else round_}")
        return [
            [source.randrange(*_TOKEN_IDS) for _ in range(self.prompt)] for _ in range(self.batch)
        ]

    def steps(self, work: ModelWork) -> list[StepWork]:
        """The least that the engine must do in the time that is measured, step by step."""
        if not self.decodes:
            return [work.step([(0, self.prompt)] * self.batch, self.batch)]
        contexts = range(self.prompt, self.prompt + self.tokens - 1)
        return [work.step([(before, 1)] * self.batch, self.batch) for before in contexts]


def decode_row(batch: int, prompt: int, tokens: int, *, cached: bool = False) -> Row:
    """A decode row with its name."""
    name = f"decode b{batch}, context {prompt}-{prompt + tokens - 1}"
    return Row(name, batch, prompt, tokens, cached)


ROWS: Final = (
    Row("prefill 512", 1, 512, 1),
    Row("prefill 2048", 1, 2048, 1),
    *(decode_row(batch, 32, 69) for batch in (1, 4, 16)),
    *(decode_row(batch, 1024, 33, cached=True) for batch in (1, 4, 16)),
)
QUICK: Final = tuple(row for row in ROWS if row.prompt <= 512)


@dataclass(frozen=True, slots=True)
class Measured:
    """One row in one round."""

    tok_s: float
    host_s: float | None
    cores: float


def measure(llm: LLM, clock: StepClock, row: Row, round_: int) -> Measured:
    """Runs a row once. Raises `RuntimeError` where the engine did something else."""
    params = SamplingParams(temperature=0.0, max_tokens=row.tokens, ignore_eos=True)
    prompts = row.prompts(round_)
    if row.cached and round_ == 0:
        for prompt in prompts:
            llm.generate([prompt], SamplingParams(temperature=0.0, max_tokens=1))
    clock.steps.clear()
    cpu, began = time.process_time(), time.perf_counter()
    answers = llm.generate(prompts, params)
    cores = (time.process_time() - cpu) / (time.perf_counter() - began)
    expected = row.prompt - _BLOCK_TOKENS if row.cached else 0
    if any(answer.cached_tokens < expected for answer in answers):
        raise RuntimeError(f"{row.name}: a prompt had left the prefix cache")
    # One step for all prompts, and one for each further token, or times would mean something else.
    if len(clock.steps) != row.tokens:
        raise RuntimeError(f"{row.name}: {len(clock.steps)} steps instead of {row.tokens}")
    first_s = max(answer.ledger.ttft_s or 0.0 for answer in answers)
    if not row.decodes:
        return Measured(row.timed_tokens / first_s, None, cores)
    last_s = max(answer.ledger.e2e_s for answer in answers)
    return Measured(row.timed_tokens / (last_s - first_s), host_s(clock.steps), cores)


def bound_tok_s(row: Row, work: ModelWork, ceilings: Ceilings) -> float:
    """Tokens per second if every step took the least time that it can."""
    return row.timed_tokens / sum(bound(step, ceilings).seconds for step in row.steps(work))


def table(
    rows: Sequence[Row],
    runs: Sequence[Sequence[Measured]],
    work: ModelWork,
    ceilings: Ceilings,
) -> list[dict[str, object]]:
    """One line per row: medians of its runs, and its bound."""
    lines: list[dict[str, object]] = []
    for row, measured in zip(rows, runs, strict=True):
        speed = statistics.median(one.tok_s for one in measured)
        most = bound_tok_s(row, work, ceilings)
        hosts = [one.host_s for one in measured if one.host_s is not None]
        lines.append(
            {
                "row": row.name,
                "tok_s": speed,
                "bound_tok_s": most,
                "fraction": speed / most,
                "host_ms": statistics.median(hosts) * 1e3 if hosts else None,
                "cores": statistics.median(one.cores for one in measured),
            }
        )
    return lines


def main() -> None:
    """Runs and prints."""
    arguments = _arguments()
    rows = QUICK if arguments.quick else ROWS
    model = str(ensure(arguments.model))
    checkpoint = open_checkpoint(Path(model))
    kv_tokens = 2 * (2048 + 512) + sum(row.batch * (row.prompt + row.tokens + 32) for row in rows)
    load_before = os.getloadavg()[0]
    with LLM(
        model,
        max_model_len=2080,
        max_num_batched_tokens=2080,
        max_num_seqs=_SEQUENCES,
        # A prompt is prefilled whole, so that chunks cut for latency do not count as slowness.
        step_time_target_s=60.0,
        block_tokens=_BLOCK_TOKENS,
        kv_memory=kv_tokens * _token_bytes(model, arguments),
        backend=arguments.backend,
        weights=arguments.weights,
        kv_dtype=arguments.kv_dtype,
    ) as llm:
        info = llm.info
        work = work_of(
            checkpoint,
            BackendName(info.backend),
            WeightFormat(info.weights),
            KVDType(info.kv_dtype),
        )
        meter = CeilingMeter(info.threads)
        ceilings = meter.measure()
        clock = watch(llm)
        runs: list[list[Measured]] = [[] for _ in rows]
        for round_ in range(arguments.rounds):
            for row, measured in zip(rows, runs, strict=True):
                measured.append(measure(llm, clock, row, round_))
            ceilings = ceilings.best(meter.measure())
        meter.close()
    lines = table(rows, runs, work, ceilings)
    served = [
        serve_once(model, POOL_TOKENS * _token_bytes(model, arguments), _options(arguments))
        for _ in range(1 if arguments.quick else 3)
    ]
    extra = _about(llm, load_before, ceilings, served) | {
        "rounds": [
            {"row": row.name, **asdict(one)}
            for row, measured in zip(rows, runs, strict=True)
            for one in measured
        ]
    }
    show(f"{info.model_name}: {extra['engine']} (measured)", lines)
    for line in _sentences(ceilings, served):
        print(line)
    write(arguments.json, lines, extra=extra)


def _about(
    llm: LLM, load_before: float, ceilings: Ceilings, served: Sequence[Served]
) -> dict[str, object]:
    info = llm.info
    return {
        "load_average_before": load_before,
        "engine": f"{info.backend} ({info.isa}, {info.threads} threads), weights {info.weights}, "
        f"KV {info.kv_dtype}, numerics {info.numerics}",
        "weight_bytes": info.weight_bytes,
        "ceilings": asdict(ceilings),
        "start": [asdict(one) for one in served],
    }


def _sentences(ceilings: Ceilings, served: Sequence[Served]) -> list[str]:
    started = sorted(one.ready_s for one in served)
    one = served[-1]
    answering = ", ".join(f"{seconds:.2f}" for seconds in one.cpu_answers_s)
    getting_ready = ", ".join(f"{seconds:.2f}" for seconds in one.cpu_ready_s)
    return [
        f"ceilings, best of the run: read {ceilings.read_bytes_s / 1e9:.1f} GB/s, "
        f"{ceilings.float_s / 1e9:.0f} G float and {ceilings.product_s / 1e9:.0f} G byte "
        f"multiply-adds a second ({ceilings.isa}, {ceilings.threads} threads)",
        f"netgain serve: ready after {started[0]:.2f} to {started[-1]:.2f} s, "
        f"{max(one.pss_bytes for one in served) / 1e6:.0f} MB PSS with {POOL_TOKENS} tokens of KV",
        f"CPU seconds per process: until ready {getting_ready}; "
        f"for {one.answered_tokens} tokens {answering}",
    ]


def _token_bytes(model: str, arguments: argparse.Namespace) -> int:
    """Bytes of one token's keys and values; where the format is open, as if in float32."""
    chosen = arguments.kv_dtype
    if chosen is KVFormat.AUTO:
        chosen = KVFormat.FP32 if arguments.backend is BackendName.TORCH else KVFormat.FP16
    config = open_checkpoint(Path(model)).config
    return sum(
        group.token_bytes for group in config.kv_groups(_BLOCK_TOKENS, KVDType(chosen.value))
    )


def _options(arguments: argparse.Namespace) -> list[str]:
    chosen = (arguments.backend, arguments.weights, arguments.kv_dtype)
    names = ("--backend", "--weights", "--kv-dtype")
    return [word for pair in zip(names, map(str, chosen), strict=True) for word in pair]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.cpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="two rounds, short contexts only")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--backend", type=BackendName, default=BackendName.AUTO)
    parser.add_argument("--weights", type=WeightFormat, default=WeightFormat.AUTO)
    parser.add_argument("--kv-dtype", type=KVFormat, default=KVFormat.AUTO)
    arguments = parser.parse_args()
    if arguments.rounds is None:
        arguments.rounds = 2 if arguments.quick else 5
    return arguments


if __name__ == "__main__":
    main()
