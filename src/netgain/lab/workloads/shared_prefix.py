"""Requests that share prefixes, some of which are more popular than others."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from netgain.lab.conversation import Conversation
from netgain.lab.workloads.distribution import Distribution, whole
from netgain.lab.workloads.lengths_only import single
from netgain.lab.workloads.parameters import Parameterised, distribution, parameter
from netgain.lab.workloads.popularity import Zipf
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.seeds import derived_seed, stream
from netgain.lab.workloads.workload import WorkloadError


@dataclass(frozen=True)
class SharedPrefix(Parameterised):
    """A prefix out of several, then words of the request's own.

    With `round`, request i takes prefix i mod `prefixes`: each once before any comes again.
    """

    name = "shared-prefix"
    about = "a shared prefix out of several (Zipf popularity), then text of its own"

    prefixes: int = parameter("prefixes", 16, "different prefixes", least=1)
    prefix: int = parameter("prefix", 1024, "tokens of each, behind the template's lead", least=1)
    zipf: float = parameter("zipf", 1.0, "exponent of their popularity; 0: all alike", least=0)
    round: bool = parameter("round", False, "take them in turn instead")
    share: float = parameter("share", 1.0, "of the requests, those with a shared prefix", least=0)
    suffix: Distribution = distribution("in", "128", "tokens after the prefix, template included")
    answer: Distribution = distribution("out", "64", "tokens of the answer")
    exact: bool = parameter("exact", True, "forbid an earlier end of the answer")
    questions: int = parameter(
        "questions", 0, "another number: other suffixes to the same prefixes", least=0
    )

    def __post_init__(self) -> None:
        if self.share > 1:
            raise WorkloadError(f"workload {self.name}, parameter share: {self.share:g} is above 1")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """Without end."""
        popularity = Zipf(self.prefixes, self.zipf)
        texts: dict[int, str] = {}
        for index in count():
            rng = stream(seed, self.name, index, self.questions)
            if rng.random() < self.share:
                key = index % self.prefixes if self.round else popularity.draw(rng)
                if key not in texts:
                    texts[key] = self.prefix_text(writer, seed, key)
                prefix = texts[key]
            else:
                prefix = writer.words(rng, self.prefix)
            tokens = self.prefix + whole(self.suffix, rng)
            written = writer.first_at_least(rng, tokens, before=f"{prefix} ")
            yield single(self.name, written, whole(self.answer, rng), exact=self.exact)

    def prefix_text(self, writer: PromptWriter, seed: int, key: int) -> str:
        """The text of prefix `key`."""
        return writer.words(stream(derived_seed(seed, self.name, "prefix"), key), self.prefix)
