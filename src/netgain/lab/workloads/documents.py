"""A long document, then several questions about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from netgain.lab.conversation import Conversation, Turn
from netgain.lab.workloads.distribution import Distribution, whole
from netgain.lab.workloads.parameters import Parameterised, distribution, parameter
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.seeds import stream


@dataclass(frozen=True)
class DocumentQuestions(Parameterised):
    """One conversation a document: its text with the first question, then further questions."""

    name = "documents"
    about = "a long document and questions about it, one after another in one conversation"

    document: Distribution = distribution("doc", "4096", "tokens of the first prompt, all told")
    questions: Distribution = distribution("questions", "4", "questions to each document")
    question: Distribution = distribution(
        "in", "48", "tokens a later question adds, template included"
    )
    answer: Distribution = distribution("out", "96", "tokens of each answer")
    think: Distribution = distribution("think", "lognormal/5/0.6/0.5..60", "seconds to think")
    exact: bool = parameter("exact", True, "forbid an earlier end of the answers")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """Without end."""
        for index in count():
            rng = stream(seed, self.name, index)
            first = writer.first_at_least(
                rng, whole(self.document, rng), after="\n\nQuestion: what follows from this?"
            )
            turns = [
                Turn(
                    text=first.text,
                    prompt_tokens=first.tokens,
                    max_tokens=whole(self.answer, rng),
                    exact_length=self.exact,
                )
            ]
            for _ in range(whole(self.questions, rng) - 1):
                asked = writer.later(rng, whole(self.question, rng))
                turns.append(
                    Turn(
                        text=asked.text,
                        prompt_tokens=asked.tokens,
                        max_tokens=whole(self.answer, rng),
                        exact_length=self.exact,
                        think_s=self.think.draw(rng),
                    )
                )
            yield Conversation(request_class=self.name, turns=tuple(turns))
