"""What went wrong, by kind."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from netgain.lab.record import ErrorKind, RequestRecord


@dataclass(frozen=True, slots=True)
class FailureClass:
    """One kind of failure: how often, and its most frequent message with the HTTP status seen."""

    kind: ErrorKind
    count: int
    message: str
    status: int | None


def failure_classes(records: Iterable[RequestRecord]) -> tuple[FailureClass, ...]:
    """The kinds that occurred, most frequent first."""
    counts: Counter[ErrorKind] = Counter()
    messages: dict[ErrorKind, Counter[tuple[str, int | None]]] = {}
    for record in records:
        if record.failure is None:
            continue
        kind = record.failure.kind
        counts[kind] += 1
        messages.setdefault(kind, Counter())[record.failure.message, record.status] += 1
    return tuple(
        FailureClass(kind, count, *messages[kind].most_common(1)[0][0])
        for kind, count in counts.most_common()
    )
