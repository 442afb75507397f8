"""Makes load, in worker processes of its own, and takes the records in as requests end.

The process that calls this feeds conversations ahead of their time and counts tokens; it is never
between a request and its clock.
"""

import math
import os
import selectors
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from netgain.errors import NetgainError
from netgain.lab.conversation import Conversation
from netgain.lab.counting import CountTokens, recounted
from netgain.lab.load_feed import load_feed
from netgain.lab.load_messages import (
    Bye,
    Done,
    Enough,
    FromWorker,
    Given,
    Go,
    Pulse,
    Setup,
    Stop,
)
from netgain.lab.load_plan import (
    ClosedLoad,
    Ended,
    LoadObserver,
    LoadOutcome,
    LoadPlan,
    LoadProgress,
    OpenLoad,
)
from netgain.lab.load_process import LoadProcess
from netgain.lab.record import ErrorKind

_PROGRESS_S: Final = 0.25
_BEFORE_ZERO_S: Final = 0.2
_RATE_PER_WORKER: Final = 800.0  # of 16 events each; a worker more is one more on the same cores
_CLIENTS_PER_WORKER: Final = 256
_AHEAD_S: Final = 10.0
_AHEAD: Final = (64, 4096)
_SPARE: Final = 8
_GIVEN_AT_ONCE: Final = 64


def run_load(
    plan: LoadPlan,
    conversations: Iterable[Conversation],
    observer: LoadObserver,
    count_tokens: CountTokens | None = None,
) -> LoadOutcome:
    """Runs a plan to its end; blocks, and calls the observer meanwhile.

    `conversations` may be without end and are taken a little ahead of their time. `count_tokens` is
    the target's tokenizer, used where the server itself does not say how many tokens an event has.
    Ctrl-C ends the run and is reported in the outcome; pressed again it is raised.
    Raises `ConfigurationError` for a plan that cannot begin; what goes wrong later is in the
    outcome, and the records until then have been observed.
    """
    return _Run(plan, conversations, observer, count_tokens).run()


class _Run:
    def __init__(
        self,
        plan: LoadPlan,
        conversations: Iterable[Conversation],
        observer: LoadObserver,
        count_tokens: CountTokens | None,
    ) -> None:
        self._plan = plan
        self._observer = observer
        self._count_tokens = count_tokens
        self._feed: Iterator[Given] = load_feed(plan, conversations)
        self._exhausted = False
        self._workers: list[LoadProcess] = []
        self._selector = selectors.DefaultSelector()
        self._zero_s: float | None = None
        self._started_unix_s = 0.0
        self._ended = Ended.COMPLETE
        self._reason = ""
        self._errors: Counter[ErrorKind] = Counter()
        self._requests = self._tokens = self._unconnected = 0
        self._lag_sum_s = 0.0
        self._sent_requests = 0
        self._last_end_s = 0.0
        self._pulses: dict[LoadProcess, Pulse] = {}
        self._cpu_s = 0.0
        self._shown_s = 0.0

    def run(self) -> LoadOutcome:
        count = workers_for(self._plan)
        began_cpu_s = time.process_time()
        try:
            for worker_number in range(count):
                self._start_worker(worker_number, count)
            try:
                self._until_ended()
            except KeyboardInterrupt:
                self._stop(Ended.INTERRUPTED, "interrupted")
                self._until_ended()
        except BaseException:
            for worker in self._workers:
                worker.kill()
            raise
        finally:
            self._selector.close()
        for worker in self._workers:
            worker.end()
        leading_cpu_s = time.process_time() - began_cpu_s
        return LoadOutcome(
            ended=self._ended,
            reason=self._reason,
            started_unix_s=self._started_unix_s,
            length_s=self._last_end_s,
            requests=self._requests,
            failed=self._errors.total(),
            workers=count,
            cpu_s=self._cpu_s + leading_cpu_s,
            leading_cpu_s=leading_cpu_s,
        )

    def _start_worker(self, number: int, count: int) -> None:
        plan, load = self._plan, self._plan.load
        clients, stagger_s = None, 0.0
        if isinstance(load, ClosedLoad):
            clients = len(range(number, load.clients, count))
            stagger_s = load.ramp_s / load.clients
        worker = LoadProcess()
        self._workers.append(worker)
        self._selector.register(worker, selectors.EVENT_READ)
        worker.tell(
            Setup(
                target=plan.target,
                clients=clients,
                stagger_s=stagger_s * count,
                stagger_first_s=stagger_s * number,
                ahead=_ahead(plan, count),
                duration_s=plan.duration_s,
                drain_s=plan.drain_s,
                keep_text=plan.keep_text,
                send_texts=self._count_tokens is not None,
            )
        )

    def _until_ended(self) -> None:
        """Feeds, starts and listens until every worker said its last."""
        while any(worker.alive for worker in self._workers):
            busy = self._give()
            if self._zero_s is None and not busy and all(w.ready for w in self._workers):
                self._go()
            for key, _ in self._selector.select(0.0 if busy else _PROGRESS_S):
                worker = key.fileobj
                assert isinstance(worker, LoadProcess)
                for message in worker.heard():
                    self._take(worker, message)
                if not worker.alive:
                    self._gone(worker)
            self._show()

    def _give(self) -> bool:
        """Gives conversations to those who want them; whether there is more to give at once."""
        if self._exhausted or not all(worker.ready for worker in self._workers):
            return False  # those who are there first would get more than their share
        for _ in range(_GIVEN_AT_ONCE):
            worker = max(self._workers, key=lambda worker: worker.wants)
            if worker.wants <= 0:
                return False
            given = self._next()
            if given is None:
                self._exhausted = True
                for worker in self._workers:
                    worker.tell(Enough())
                return False
            worker.wants -= 1
            worker.tell(given)
        return True

    def _next(self) -> Given | None:
        try:
            return next(self._feed, None)
        except NetgainError as error:
            if self._zero_s is None:
                raise
            self._stop(Ended.WORKLOAD_FAILED, str(error))
            return None

    def _go(self) -> None:
        self._zero_s = time.monotonic() + _BEFORE_ZERO_S
        self._started_unix_s = time.time() + _BEFORE_ZERO_S
        self._observer.started(self._started_unix_s)
        for worker in self._workers:
            worker.tell(Go(self._zero_s))

    def _take(self, worker: LoadProcess, message: FromWorker) -> None:
        match message:
            case Done():
                self._take_record(message)
            case Pulse():
                self._pulses[worker] = message
            case Bye(cpu_s):
                self._cpu_s += cpu_s
                worker.said_bye = True

    def _take_record(self, done: Done) -> None:
        record = done.record
        if self._count_tokens is not None:
            record = recounted(record, done.texts, self._count_tokens)
        self._requests += 1
        self._tokens += record.output_tokens
        self._last_end_s = max(self._last_end_s, record.end_s or 0.0)
        if record.sent_s is not None:
            self._sent_requests += 1
            self._lag_sum_s += record.sent_s - record.intended_s
        if record.failure is not None:
            self._errors[record.failure.kind] += 1
        self._observer.record(record)
        if record.failure is None or record.failure.kind is not ErrorKind.CONNECT:
            self._unconnected = 0
            return
        self._unconnected += 1
        if self._unconnected == self._plan.give_up_after:
            self._stop(
                Ended.SERVER_GONE,
                f"{self._unconnected} requests in a row could not connect to "
                f"{self._plan.target.endpoint.url} ({record.failure.message})",
            )

    def _gone(self, worker: LoadProcess) -> None:
        self._selector.unregister(worker)
        self._pulses.pop(worker, None)
        if not worker.said_bye:
            self._stop(Ended.WORKER_DIED, "a process of the load generator died")

    def _stop(self, ended: Ended, reason: str) -> None:
        """The first reason counts."""
        if self._ended is Ended.COMPLETE:
            self._ended, self._reason = ended, reason
        self._exhausted = True
        for worker in self._workers:
            if self._zero_s is None:
                worker.tell(Go(time.monotonic()))  # it ends a run, be it an empty one
            worker.tell(Stop())

    def _show(self) -> None:
        now_s = time.monotonic()
        if self._zero_s is None or now_s < self._shown_s + _PROGRESS_S:
            return
        self._shown_s = now_s
        self._observer.progress(
            LoadProgress(
                elapsed_s=max(0.0, now_s - self._zero_s),
                duration_s=self._plan.duration_s,
                sent=sum(pulse.sent for pulse in self._pulses.values()),
                in_flight=sum(pulse.in_flight for pulse in self._pulses.values()),
                answered=self._requests - self._errors.total(),
                output_tokens=self._tokens,
                mean_lag_s=self._lag_sum_s / max(1, self._sent_requests),
                errors=dict(self._errors),
            )
        )


def workers_for(plan: LoadPlan) -> int:
    """How many processes make a plan's load: as it says, or as its rate or clients need."""
    if plan.workers is not None:
        return plan.workers
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    match plan.load:
        case OpenLoad(arrivals):
            needed = math.ceil(arrivals.mean_rate / _RATE_PER_WORKER)
        case ClosedLoad(clients):
            needed = math.ceil(clients / _CLIENTS_PER_WORKER)
        case _:
            needed = 1
    return max(1, min(needed, (cores or 1)))


def _ahead(plan: LoadPlan, workers: int) -> int:
    """How many conversations each worker holds in advance."""
    least, most = _AHEAD
    match plan.load:
        case OpenLoad(arrivals):
            wanted = arrivals.mean_rate * _AHEAD_S / workers
        case ClosedLoad(clients):
            return math.ceil(clients / workers) + _SPARE
        case _:
            wanted = most
    return min(most, max(least, math.ceil(wanted)))
