"""The same traffic by netgain's own generator."""

from benchmarks.load_tools.traffic import MODEL, Traffic
from benchmarks.peers.failure import PeerError
from netgain.lab.arrivals import Constant
from netgain.lab.conversation import Conversation, Turn
from netgain.lab.generator import run_load
from netgain.lab.load_plan import Ended, LoadPlan, LoadProgress, OpenLoad
from netgain.lab.record import RequestRecord
from netgain.lab.run_header import LoadKind, RunHeader
from netgain.lab.target import Api, Target, parse_url


class _Keeper:
    """Keeps what is observed."""

    def __init__(self) -> None:
        self.started_unix_s = 0.0
        self.records: list[RequestRecord] = []

    def started(self, started_unix_s: float) -> None:
        self.started_unix_s = started_unix_s

    def record(self, record: RequestRecord) -> None:
        self.records.append(record)

    def progress(self, progress: LoadProgress) -> None:
        del progress


def own_run(url: str, traffic: Traffic) -> tuple[RunHeader, list[RequestRecord]]:
    """Sends the traffic once, with one worker process. Raises `PeerError` where it fails."""
    arrivals = Constant(traffic.rate)
    target = Target(endpoint=parse_url(url), model=MODEL, api=Api.CHAT)
    plan = LoadPlan(target=target, load=OpenLoad(arrivals), requests=traffic.requests, workers=1)
    conversations = (
        Conversation(
            request_class=traffic.script(index),
            turns=(Turn(text=traffic.prompt(index), max_tokens=traffic.tokens(index)),),
        )
        for index in range(traffic.requests)
    )
    keeper = _Keeper()
    outcome = run_load(plan, conversations, keeper)
    if outcome.ended is not Ended.COMPLETE or outcome.failed:
        raise PeerError(
            f"{outcome.ended.value}: {outcome.reason or f'{outcome.failed} requests failed'}"
        )
    header = RunHeader(
        load=LoadKind.OPEN,
        rate=traffic.rate,
        arrivals=str(arrivals),
        duration_s=traffic.requests / traffic.rate,
        workload="scripted",
        target=url,
        model=MODEL,
        api=Api.CHAT.value,
        seed=plan.seed,
        started_unix_s=keeper.started_unix_s,
    )
    return header, keeper.records
