"""Conversations of several turns with time to think between them; also chat and agent presets."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from netgain.lab.conversation import Conversation, Turn
from netgain.lab.workloads.distribution import Distribution, whole
from netgain.lab.workloads.parameters import Parameterised, distribution, parameter
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.seeds import stream


@dataclass(frozen=True)
class Dialogue(Parameterised):
    """Turns of random words; where `system` is above 0, a system message out of `systems`."""

    name = "multi-turn"
    about = "conversations of several turns with think time; each turn finds the ones before cached"

    prompt: Distribution = distribution(
        "in", "128", "tokens of the first prompt after the system message, template included"
    )
    more: Distribution = distribution(
        "more", "64", "tokens a later turn adds beside the answer, template included"
    )
    answer: Distribution = distribution("out", "96", "tokens of each answer")
    turns: Distribution = distribution("turns", "2..6", "turns of a conversation")
    think: Distribution = distribution(
        "think", "lognormal/4/0.7/0.2..60", "seconds between an answer and the next turn"
    )
    system: int = parameter("system", 0, "tokens of a system message; 0: none", least=0)
    systems: int = parameter("systems", 1, "different system messages, in turn", least=1)
    exact: bool = parameter("exact", True, "forbid an earlier end of the answers")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """Without end."""
        for index in count():
            rng = stream(seed, self.name, index)
            system = self._system_text(writer, seed, index)
            first = writer.first_at_least(rng, self.system + whole(self.prompt, rng), system=system)
            turns = [self._turn(first.text, first.tokens, whole(self.answer, rng), 0.0)]
            for _ in range(whole(self.turns, rng) - 1):
                said = writer.later(rng, whole(self.more, rng))
                think_s = self.think.draw(rng)
                turns.append(self._turn(said.text, said.tokens, whole(self.answer, rng), think_s))
            yield Conversation(request_class=self.name, turns=tuple(turns), system=first.system)

    def _system_text(self, writer: PromptWriter, seed: int, index: int) -> str | None:
        if not self.system:
            return None
        return writer.words(stream(seed, self.name, "system", index % self.systems), self.system)

    def _turn(self, text: str, tokens: int | None, max_tokens: int, think_s: float) -> Turn:
        return Turn(
            text=text,
            prompt_tokens=tokens,
            max_tokens=max_tokens,
            exact_length=self.exact,
            think_s=think_s,
        )
