"""Step time against batch and context, beside the roofline, and where the time goes.

    python -m benchmarks.step_times [--quick] [--json FILE|-] [--plot FILE.svg]
        [--weights auto] [--kv-dtype fp16] [--from FILE]

Decode steps straight through the native backend's runner, no engine around it: batches 1 to 64 at a
few contexts, and contexts 0 to 8,192 at batches 1 and 16. Medians. The bound is the least time that
reading and multiplying can take (benchmarks/roofline.py), from ceilings measured in the same run.
Keys and values are written once with some constant, so that they come from memory as real ones
do. `--from` plots the numbers of an earlier run and measures nothing.
"""

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.report import show, write
from benchmarks.roofline import ModelWork, bound, work_of
from netgain.hardware.host import available_memory_bytes, usable_cores
from netgain.kv.geometry import KVDType, KVGroup
from netgain.models.checkpoint import open_checkpoint
from netgain.models.loading import load_model
from netgain.models.store import DEFAULT_MODEL, ensure
from netgain.ops.choices import BackendName, KVFormat, WeightFormat
from netgain.ops.cpu.backend import NativeBackend, NativeRunner
from netgain.ops.cpu.ceilings import CeilingMeter, Ceilings
from netgain.ops.cpu.library import Unavailable, load
from netgain.ops.draws import Draws
from netgain.ops.step_inputs import GroupInputs, StepInputs

_BLOCK_TOKENS: Final = 16
_BATCHES: Final = tuple(range(1, 65))
_QUICK_BATCHES: Final = (1, 2, 4, 8, 9, 12, 15, 16, 17, 24, 32, 48, 64)
_CONTEXTS_OF_BATCHES: Final = (64, 1024)
_CONTEXTS: Final = (
    *(0, 64, 128, 192, 255, 256, 257, 320, 384, 448, 511, 512, 640, 768, 896, 1024),
    *(1280, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8191),
)
_QUICK_CONTEXTS: Final = (0, 128, 255, 256, 512, 1024, 2048, 4096, 8191)
_BATCHES_OF_CONTEXTS: Final = (1, 16)
_LEAST_STEPS, _LEAST_S = 7, 0.15
_POINTS_PER_CEILING: Final = 16
_POOL_SHARE: Final = 0.4
"""Of the free memory, for keys and values; points beyond it are left out, and said so."""
_FILL: Final = 0x11
"""Small numbers in every format; pages that nobody wrote to would all be the same page."""


@dataclass(frozen=True, slots=True)
class Point:
    """Decode steps of `batch` sequences with `context` tokens before this one."""

    batch: int
    context: int

    @property
    def slices(self) -> list[tuple[int, int]]:
        """As `ModelWork.step` takes them."""
        return [(self.context, 1)] * self.batch


def points(*, quick: bool) -> list[Point]:
    """All points, each once."""
    batches, contexts = (_QUICK_BATCHES, _QUICK_CONTEXTS) if quick else (_BATCHES, _CONTEXTS)
    by_batch = [Point(batch, context) for context in _CONTEXTS_OF_BATCHES for batch in batches]
    by_context = [Point(batch, context) for batch in _BATCHES_OF_CONTEXTS for context in contexts]
    return list(dict.fromkeys(by_batch + by_context))


class Stand:
    """A runner with a pool that is written all over, and the steps to give it."""

    def __init__(self, runner: NativeRunner, groups: int, blocks: int) -> None:
        self._runner = runner
        self._groups = groups
        self._blocks = blocks
        for records in runner.records:
            records[:] = _FILL

    def holds(self, point: Point) -> bool:
        """Whether every sequence finds blocks of its own."""
        return point.batch * _blocks(point) < self._blocks

    def measure(self, point: Point) -> tuple[list[float], dict[str, float]]:
        """Seconds of some steps, and the mean seconds in each kind of phase."""
        inputs, draws = self._step(point)
        self._runner.run(inputs, draws)
        self._runner.phase_times()
        times: list[float] = []
        while len(times) < _LEAST_STEPS or sum(times) < _LEAST_S:
            began = time.perf_counter()
            self._runner.run(inputs, draws)
            times.append(time.perf_counter() - began)
        phases = self._runner.phase_times()
        return times, {name: spent / len(times) for name, spent in phases.items() if spent}

    def _step(self, point: Point) -> tuple[StepInputs, Draws]:
        batch, each = point.batch, _blocks(point)
        rows = np.arange(batch, dtype=np.int32)
        tables = 1 + np.arange(batch * each, dtype=np.int32).reshape(batch, each)
        inputs = StepInputs(
            token_ids_T=100 + rows,
            positions_T=np.full(batch, point.context, np.int32),
            query_starts=np.arange(batch + 1, dtype=np.int32),
            context_lens_R=np.full(batch, point.context + 1, np.int32),
            groups=(GroupInputs(tables),) * self._groups,
            logit_rows_N=rows,
        )
        greedy = Draws(
            np.zeros(batch, np.float32),
            np.zeros(batch, np.int32),
            np.ones(batch, np.float32),
            np.zeros(batch, np.uint64),
            np.full(batch, point.context + 1, np.int64),
        )
        return inputs, greedy


def _blocks(point: Point) -> int:
    return point.context // _BLOCK_TOKENS + 1


def line(
    point: Point,
    times: Sequence[float],
    phases: Mapping[str, float],
    work: ModelWork,
    ceilings: Ceilings,
) -> dict[str, object]:
    """One row of the JSON; milliseconds."""
    least = bound(work.step(point.slices, point.batch), ceilings)
    median = statistics.median(times)
    return {
        "batch": point.batch,
        "context": point.context,
        "step_ms": median * 1e3,
        "best_ms": min(times) * 1e3,
        "steps": len(times),
        "read_bound_ms": least.read_s * 1e3,
        "compute_bound_ms": least.compute_s * 1e3,
        "fraction": least.seconds / median,
        "tok_s": point.batch / median,
        "phases_ms": {name: spent * 1e3 for name, spent in phases.items()},
    }


def plot(rows: Sequence[Mapping[str, object]], title: str, path: Path) -> None:
    """Draws step times and bounds: against the batch on the left, the context on the right."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same numbers give the same file; text stays text.
    mpl.rcParams.update({"svg.hashsalt": "netgain", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    panels = (
        (left, "batch", "context", _CONTEXTS_OF_BATCHES),
        (right, "context", "batch", _BATCHES_OF_CONTEXTS),
    )
    for axes, across, fixed, values in panels:
        for index, value in enumerate(values):
            series = sorted(
                (row for row in rows if row[fixed] == value), key=lambda row: _number(row, across)
            )
            at = [_number(row, across) for row in series]
            color = f"C{index}"
            axes.plot(
                at,
                [_number(row, "step_ms") for row in series],
                color=color,
                marker=".",
                markersize=3,
                linewidth=1,
                label=f"{fixed} {value}",
            )
            for key, style in (("read_bound_ms", "--"), ("compute_bound_ms", ":")):
                least = [_number(row, key) for row in series]
                axes.plot(at, least, color=color, linestyle=style, linewidth=1)
        axes.set(xlabel=across, ylabel="ms per step", xlim=(0, None), ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", title="dashed: reading, dotted: multiplying")
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _number(row: Mapping[str, object], key: str) -> float:
    value = row[key]
    assert isinstance(value, (int, float))
    return float(value)


def measure_all(
    arguments: argparse.Namespace,
) -> tuple[list[dict[str, object]], dict[str, object]]:
    """All points, and what is to be said of the run."""
    library = load()
    if isinstance(library, Unavailable):
        raise SystemExit(f"this measures the native backend: {library.reason}")
    checkpoint = open_checkpoint(ensure(arguments.model))
    threads = usable_cores()
    backend = NativeBackend(library, threads, arguments.weights, KVFormat(arguments.kv_dtype.value))
    traits = backend.traits
    model, _ = load_model(checkpoint, backend)
    groups = [
        replace(group, dtype=traits.kv_dtype)
        for group in checkpoint.config.kv_groups(_BLOCK_TOKENS)
    ]
    wanted = points(quick=arguments.quick)
    blocks = min(1 + max(p.batch * _blocks(p) for p in wanted), _most_blocks(groups))
    most_rows = max(point.batch for point in wanted)
    stand = Stand(backend.runner(model, groups, blocks, most_rows, most_rows), len(groups), blocks)
    work = work_of(checkpoint, BackendName.NATIVE, traits.weights, traits.kv_dtype)
    meter = CeilingMeter(threads)
    ceilings = meter.measure()
    measured = []
    for index, point in enumerate(filter(stand.holds, wanted)):
        measured.append((point, *stand.measure(point)))
        if index % _POINTS_PER_CEILING == 0:
            ceilings = ceilings.best(meter.measure())
    meter.close()
    rows = [line(point, times, phases, work, ceilings) for point, times, phases in measured]
    about: dict[str, object] = {
        "engine": f"native ({traits.isa}, {threads} threads), weights {traits.weights}, "
        f"KV {traits.kv_dtype}",
        "ceilings": asdict(ceilings),
        "left_out_for_memory": [asdict(point) for point in wanted if not stand.holds(point)],
    }
    return rows, about


def _most_blocks(groups: Sequence[KVGroup]) -> int:
    return int(_POOL_SHARE * available_memory_bytes()) // sum(g.record_bytes for g in groups)


def main() -> None:
    """Runs, prints and plots."""
    arguments = _arguments()
    if arguments.source:
        found = json.loads(arguments.source.read_text())
        plot(found["rows"], found["engine"], arguments.plot)
        return
    rows, about = measure_all(arguments)
    columns = ("batch", "context", "step_ms", "best_ms", "read_bound_ms", "compute_bound_ms")
    shown = [{key: row[key] for key in (*columns, "fraction")} for row in rows]
    show(f"Decode steps, {about['engine']} (measured)", shown)
    write(arguments.json, rows, extra=about)
    if arguments.plot:
        plot(rows, str(about["engine"]), arguments.plot)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.step_times",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="fewer points")
    parser.add_argument("--json", type=Path, default=None)
    parser.add_argument("--plot", type=Path, default=None, metavar="FILE.svg")
    parser.add_argument("--from", dest="source", type=Path, default=None, metavar="FILE.json")
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--weights", type=WeightFormat, default=WeightFormat.AUTO)
    parser.add_argument("--kv-dtype", type=KVDType, default=KVDType.FP16)
    arguments = parser.parse_args()
    if arguments.source and not arguments.plot:
        parser.error("--from wants --plot")
    return arguments


if __name__ == "__main__":
    main()
