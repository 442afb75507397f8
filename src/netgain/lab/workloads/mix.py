"""Several workloads at once, each a class with a weight."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final

import msgspec

from netgain.lab.conversation import Conversation
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.seeds import derived_seed, stream
from netgain.lab.workloads.workload import Workload, WorkloadError

_EXAMPLE: Final = "{classes: [{class: chat, workload: 'chat:out=64', weight: 0.7}, ...]}"


@dataclass(frozen=True)
class MixPart:
    """One class: `weight` is its share of the conversations beside the other weights."""

    request_class: str
    workload: Workload
    weight: float


@dataclass(frozen=True)
class Mix:
    """Draws each conversation's class; every class has its own stream of conversations."""

    parts: tuple[MixPart, ...]

    def __post_init__(self) -> None:
        for part in self.parts:
            if not 0 <= part.weight < float("inf"):
                raise WorkloadError(f"class {part.request_class}: its weight must not be negative")
            if part.workload.size is not None:
                raise WorkloadError(
                    f"class {part.request_class}: {part.workload.name} ends, a class of a mix "
                    "must not; replay a trace alone"
                )
        if not self.parts or sum(part.weight for part in self.parts) <= 0:
            raise WorkloadError("a mix needs at least one class with a weight above 0")
        names = [part.request_class for part in self.parts]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise WorkloadError(f"class {twice.pop()} comes twice in the mix: name them apart")

    @property
    def name(self) -> str:
        """Always `mix`."""
        return "mix"

    @property
    def description(self) -> str:
        """Every class with its weight."""
        total = sum(part.weight for part in self.parts)
        return "mix of " + "; ".join(
            f"{part.request_class} {part.weight / total:.3g} ({part.workload.description})"
            for part in self.parts
        )

    @property
    def size(self) -> int | None:
        """Without end."""
        return None

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of all classes."""
        return tuple(note for part in self.parts for note in part.workload.notes)

    @property
    def distinct_by_seed(self) -> bool:
        """Where all classes are."""
        return all(part.workload.distinct_by_seed for part in self.parts)

    @property
    def timed(self) -> bool:
        """Never: traces are replayed alone."""
        return False

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """Without end. The k-th conversation of a class is the same whatever the other weights."""
        sources = [
            part.workload.conversations(writer, derived_seed(seed, "mix", part.request_class))
            for part in self.parts
        ]
        rng = stream(seed, "mix")
        weights = list(accumulate(part.weight for part in self.parts))
        while True:
            chosen = rng.choices(range(len(sources)), cum_weights=weights)[0]
            conversation = next(sources[chosen])
            yield msgspec.structs.replace(
                conversation, request_class=self.parts[chosen].request_class
            )


class _Entry(msgspec.Struct, forbid_unknown_fields=True, rename={"request_class": "class"}):
    workload: str
    request_class: str = ""
    weight: float = 1.0


class _File(msgspec.Struct, forbid_unknown_fields=True):
    classes: list[_Entry]


Parse = Callable[[str], Workload]


def mix_of_weights(weights: Sequence[tuple[str, str]], parse: Parse) -> Mix:
    """From `chat=0.7,rag=0.3` taken apart: workload names and weights as text."""
    parts = []
    for name, text in weights:
        try:
            weight = float(text)
        except ValueError:
            raise WorkloadError(
                f"workload mix: the weight of {name} is {text!r}, no number"
            ) from None
        parts.append(MixPart(name, parse(name), weight))
    return Mix(tuple(parts))


def mix_of_file(path: Path, parse: Parse) -> Mix:
    """From a YAML or JSON file. Raises `WorkloadError` naming what is wrong in it."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        decode = msgspec.json.decode if path.suffix == ".json" else msgspec.yaml.decode
        file = decode(data, type=_File)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise WorkloadError(f"{path}: {error}; a mix is written like {_EXAMPLE}") from error
    return Mix(
        tuple(
            MixPart(
                entry.request_class or entry.workload.partition(":")[0],
                parse(entry.workload),
                entry.weight,
            )
            for entry in file.classes
        )
    )
