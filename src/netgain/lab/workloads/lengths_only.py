"""Prompts and answers of given lengths; nothing is shared."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from netgain.lab.conversation import Conversation, Turn
from netgain.lab.workloads.distribution import Distribution, Fixed, whole
from netgain.lab.workloads.parameters import Parameterised, distribution, parameter
from netgain.lab.workloads.prompt_writer import PromptWriter, Written
from netgain.lab.workloads.seeds import stream


@dataclass(frozen=True)
class LengthsOnly(Parameterised):
    """One request a conversation, of random words."""

    name = "synthetic"
    about = "random words: prompt and answer lengths fixed, uniform or lognormal, nothing shared"

    prompt: Distribution = distribution("in", "256", "tokens of the prompt, template included")
    answer: Distribution = distribution("out", "64", "tokens of the answer")
    exact: bool = parameter("exact", True, "forbid an earlier end of the answer")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """Without end. Raises `PromptTooShortError` for a fixed length that cannot be sent."""
        for index in count():
            rng = stream(seed, self.name, index)
            tokens = whole(self.prompt, rng)
            fixed = isinstance(self.prompt, Fixed)
            write = writer.first if fixed else writer.first_at_least
            yield single(self.name, write(rng, tokens), whole(self.answer, rng), exact=self.exact)


def single(request_class: str, written: Written, max_tokens: int, *, exact: bool) -> Conversation:
    """A conversation of one request."""
    turn = Turn(
        text=written.text,
        prompt_tokens=written.tokens,
        max_tokens=max_tokens,
        exact_length=exact,
    )
    return Conversation(request_class=request_class, turns=(turn,), system=written.system)
