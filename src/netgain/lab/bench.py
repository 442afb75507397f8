"""One run against one server: prompts, cache, load and records put together."""

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from netgain._version import __version__
from netgain.errors import ConfigurationError
from netgain.hardware.host import processor_name, usable_cores
from netgain.lab.conversation import Conversation
from netgain.lab.generator import run_load
from netgain.lab.load_plan import (
    ClosedLoad,
    Load,
    LoadOutcome,
    LoadPlan,
    LoadProgress,
    OpenLoad,
    ReplayLoad,
)
from netgain.lab.record import RequestRecord
from netgain.lab.run_end import RunEnd
from netgain.lab.run_file import RunFileError, RunWriter
from netgain.lab.run_header import CacheState, RunHeader
from netgain.lab.target import Api, Target
from netgain.lab.workloads.cache_control import CacheControl, CacheControlError
from netgain.lab.workloads.cache_counters import CacheCounters
from netgain.lab.workloads.cache_state import CacheVerdict, prepare, verdict, warming
from netgain.lab.workloads.expected_reuse import prompt_tokens_of, reuse_within
from netgain.lab.workloads.local_counter import LocalCounter
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.token_counter import TokenCounter
from netgain.lab.workloads.workload import Workload

OnProgress = Callable[[LoadProgress], None]
WarmUp = Callable[[PromptWriter, int], Iterable[Conversation]]
_WARMING_CLIENTS: Final = 4
_MARGIN: Final = 1.5
"""Conversations prepared, over those that a rate leads to expect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run: what is sent, how, and what the server's prefix cache holds when it begins.

    `warm_up` makes, from the run's writer and seed, what is sent before it and is no part of it,
    whatever state is declared; None, and a warm cache: what the run itself will send. `duration_s`,
    `requests` or the workload bound the run.
    """

    workload: Workload
    load: Load
    duration_s: float | None
    requests: int | None = None
    seed: int = 0
    cache: CacheState = CacheState.UNDECLARED
    warm_up: WarmUp | None = None
    drain_s: float = 30.0
    keep_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchRun:
    """What one run gave. `counted`: the server's cache counters over it; `notes` for the reader.

    `unwritten` says why not all records are in the file, where they are not. `nonce` as the prompts
    were written with: runs of another nonce had other prompts.
    """

    header: RunHeader
    records: tuple[RequestRecord, ...]
    outcome: LoadOutcome
    cache: CacheVerdict
    counted: CacheCounters | None
    notes: tuple[str, ...]
    nonce: str
    unwritten: str = ""

    @property
    def end(self) -> RunEnd:
        """As it stands in the run's file."""
        return RunEnd(
            ended=self.outcome.ended,
            reason=self.outcome.reason,
            cache_held=self.cache.held,
            cache_text=self.cache.text,
            notes=self.notes,
            unwritten=self.unwritten,
        )


class Bench:
    """Runs loads against one target. `command` is what the user called, for the header."""

    def __init__(self, target: Target, counter: TokenCounter, command: str) -> None:
        self._target = target
        self._counter = counter
        self._command = command
        headers = dict(target.headers)
        if target.api_key:
            headers["Authorization"] = f"Bearer {target.api_key}"
        self._control = CacheControl(target.endpoint.url, headers)

    def run(
        self, plan: RunPlan, on_progress: OnProgress, records_to: Path | None = None
    ) -> BenchRun:
        """One run, from an empty or a warmed cache to the last record.

        Records are in `records_to` as they come. Raises `NetgainError`s for a plan, a workload or a
        file that cannot be used; a server that fails meanwhile is in the outcome.
        """
        prepared = prepare(plan.cache, self._control)
        chat = self._target.api is Api.CHAT
        writer = PromptWriter(self._counter, chat=chat, nonce=prepared.nonce)
        source = plan.workload.conversations(writer, plan.seed)
        counts_on_the_server = not isinstance(self._counter, LocalCounter)
        warms_itself = plan.cache is CacheState.WARM and plan.warm_up is None
        made: list[Conversation] = []
        if warms_itself or (isinstance(plan.load, OpenLoad) and counts_on_the_server):
            # Whoever counts on the server must not do so while it is measured.
            made = list(itertools.islice(source, _needed(plan)))
            source = iter(made)
        warmed: list[Conversation] = []
        if plan.warm_up is not None:
            warmed = list(plan.warm_up(writer, plan.seed))
        elif warms_itself:
            warmed = list(warming(made))
        if warmed:
            self._warm(plan, warmed)
        sent: list[Conversation] = []
        before = self._control.counters()
        records: list[RequestRecord] = []
        with ExitStack() as stack:
            observer = _Observer(self._header(plan), records, on_progress, records_to, stack)
            outcome = run_load(
                self._load_plan(plan), _noted(source, sent), observer, self._count_tokens()
            )
            checked = verdict(
                plan.cache,
                before,
                self._counters_if_there(),
                own_reuse_tokens=reuse_within(_asked(sent, records), writer.framing().lead),
                warmed_tokens=prompt_tokens_of(warmed),
            )
            done = BenchRun(
                header=observer.header,
                records=tuple(records),
                outcome=outcome,
                cache=checked,
                counted=checked.counted,
                notes=(
                    *plan.workload.notes,
                    *writer.notes,
                    *_repeat_notes(plan),
                    f"cache: {prepared.how}; {checked.text}",
                ),
                nonce=prepared.nonce,
                unwritten=observer.unwritten,
            )
            observer.end(done.end)
        return done

    def capacity_tokens(self) -> int | None:
        """What the server's KV pool holds; None where it does not say."""
        return self._control.capacity_tokens()

    def close(self) -> None:
        """Closes what was opened beside the load."""
        self._control.close()

    def _counters_if_there(self) -> CacheCounters | None:
        """A server that is gone has none; what it answered until then is to be kept."""
        try:
            return self._control.counters()
        except CacheControlError:
            return None

    def _count_tokens(self) -> Callable[[str], int] | None:
        """Only a tokenizer in this process: asking the server for each event would be load."""
        counter = self._counter
        if not isinstance(counter, LocalCounter):
            return None
        return lambda text: len(counter.text_ids(text))

    def _load_plan(self, plan: RunPlan) -> LoadPlan:
        return LoadPlan(
            target=self._target,
            load=plan.load,
            duration_s=plan.duration_s,
            requests=plan.requests,
            drain_s=plan.drain_s,
            seed=plan.seed,
            keep_text=plan.keep_text,
        )

    def _warm(self, plan: RunPlan, conversations: list[Conversation]) -> None:
        """Sends the warming pass; raises `ConfigurationError` when the server refuses it."""
        warm_load = LoadPlan(
            target=self._target, load=ClosedLoad(_WARMING_CLIENTS), drain_s=plan.drain_s
        )
        outcome = run_load(warm_load, conversations, _Silent(), None)
        if outcome.failed or outcome.reason:
            raise ConfigurationError(
                f"the cache could not be warmed: {outcome.failed} of {outcome.requests} requests "
                f"failed{outcome.reason and ': '}{outcome.reason}; measure with --cache cold, or "
                "mend the server"
            )

    def _header(self, plan: RunPlan) -> RunHeader:
        """All but the zero, which is known when the load starts."""
        load = plan.load
        arrivals = load.arrivals if isinstance(load, OpenLoad) else None
        duration_s = plan.duration_s
        if duration_s is None and plan.requests is not None and arrivals is not None:
            duration_s = plan.requests / arrivals.mean_rate
        return RunHeader(
            load=load.kind,
            rate=arrivals.mean_rate if arrivals else None,
            arrivals=str(arrivals or ""),
            concurrency=load.clients if isinstance(load, ClosedLoad) else None,
            time_scale=load.time_scale if isinstance(load, ReplayLoad) else None,
            duration_s=duration_s or 0.0,
            workload=plan.workload.description,
            target=self._target.endpoint.url,
            model=self._target.model,
            api=self._target.api,
            seed=plan.seed,
            cache=plan.cache,
            started_unix_s=time.time(),
            command=self._command,
            versions={"netgain": __version__},
            machine={"cpu": processor_name(), "cores": str(usable_cores())},
        )


def _needed(plan: RunPlan) -> int:
    """How many conversations a run can want. Raises `ConfigurationError` where that is open."""
    bounds = [bound for bound in (plan.requests, plan.workload.size) if bound is not None]
    if isinstance(plan.load, OpenLoad) and plan.duration_s is not None:
        expected = plan.load.arrivals.mean_rate * plan.duration_s
        bounds.append(math.ceil(expected + _MARGIN * 4 * math.sqrt(expected)) + 16)
    if not bounds:
        raise ConfigurationError(
            "a warm cache needs to know what the run will send: give --requests, or a --rate"
        )
    return min(bounds)


def _repeat_notes(plan: RunPlan) -> tuple[str, ...]:
    """Where another seed gives no other prompts, and nothing empties the cache between runs."""
    if plan.workload.distinct_by_seed or plan.cache is not CacheState.UNDECLARED:
        return ()
    return (
        "the recorded prompts are the same for every seed: a repeat finds what the run before left "
        "in the cache; say --cache cold",
    )


def _noted(source: Iterator[Conversation], sent: list[Conversation]) -> Iterator[Conversation]:
    for conversation in source:
        sent.append(conversation)
        yield conversation


def _asked(taken: list[Conversation], records: list[RequestRecord]) -> list[Conversation]:
    """Conversations are taken ahead of their time: those whose turn never came were not sent."""
    numbers = {record.conversation for record in records}
    return [taken[number] for number in sorted(numbers) if number < len(taken)]


class _Observer:
    """Keeps records, in memory and in the run's file.

    A file that takes no more does not end the run, whose results are worth more than its records.
    """

    def __init__(
        self,
        header: RunHeader,
        records: list[RequestRecord],
        on_progress: OnProgress,
        records_to: Path | None,
        stack: ExitStack,
    ) -> None:
        self.header = header
        self._records = records
        self._on_progress = on_progress
        self._records_to = records_to
        self._stack = stack
        self._writer: RunWriter | None = None
        self.unwritten = ""

    def started(self, started_unix_s: float) -> None:
        """Writes the header."""
        self.header = msgspec.structs.replace(self.header, started_unix_s=started_unix_s)
        if self._records_to is not None:
            self._writer = self._stack.enter_context(RunWriter(self._records_to, self.header))

    def record(self, record: RequestRecord) -> None:
        """One more."""
        self._records.append(record)
        if self._writer is None:
            return
        try:
            self._writer.add(record)
        except RunFileError as error:
            self.unwritten = f"{error}, from record {len(self._records)} on"
            self._writer = None

    def end(self, end: RunEnd) -> None:
        """Nothing more follows."""
        if self._writer is not None:
            with suppress(RunFileError):  # whoever reads it is told that the end is missing
                self._writer.end(end)

    def progress(self, progress: LoadProgress) -> None:
        """To whoever shows it."""
        self._on_progress(progress)


class _Silent:
    """Observes nothing."""

    def started(self, started_unix_s: float) -> None:
        """Not of interest."""

    def record(self, record: RequestRecord) -> None:
        """Not of interest."""

    def progress(self, progress: LoadProgress) -> None:
        """Not of interest."""
