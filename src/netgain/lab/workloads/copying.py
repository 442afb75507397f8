"""Answers that repeat what the prompt holds: where n-gram speculation pays."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from netgain.lab.conversation import Conversation
from netgain.lab.workloads.distribution import Distribution, whole
from netgain.lab.workloads.lengths_only import single
from netgain.lab.workloads.parameters import Parameterised, distribution, parameter
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.seeds import stream

_TASK: Final = "\n\nRepeat the following text again and again, word for word.\n\n"
_HEADING_TOKENS: Final = 20
"""Words before the task: they make the beginning the request's own, and the length exact."""


@dataclass(frozen=True)
class Copying(Parameterised):
    """A passage, `repeats` times, and the task to go on repeating it.

    Even a small model goes on with a passage it has seen twice, asked to or not.
    """

    name = "copy"
    about = "copy-heavy: the prompt holds a passage several times, the answer goes on repeating it"

    prompt: Distribution = distribution("in", "512", "tokens of the prompt, template included")
    answer: Distribution = distribution("out", "128", "tokens of the answer")
    repeats: int = parameter("repeats", 3, "times the passage stands in the prompt", least=1)
    exact: bool = parameter("exact", True, "forbid an earlier end of the answer")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """Without end."""
        framing = writer.framing()
        around = framing.lead + framing.tail + writer.count(_TASK)
        for index in count():
            rng = stream(seed, self.name, index)
            tokens = whole(self.prompt, rng)
            room = tokens - around - _HEADING_TOKENS
            passage = max(writer.lexicon.least, room // self.repeats - 3)
            lines = f"{writer.words(rng, passage)}\n" * self.repeats
            written = writer.first_at_least(rng, tokens, after=f"{_TASK}{lines}")
            yield single(self.name, written, whole(self.answer, rng), exact=self.exact)
