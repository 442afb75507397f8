"""Questions with retrieved passages before them."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from netgain.lab.conversation import Conversation
from netgain.lab.workloads.distribution import Distribution, whole
from netgain.lab.workloads.lengths_only import single
from netgain.lab.workloads.parameters import Parameterised, distribution, parameter
from netgain.lab.workloads.popularity import Zipf
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.seeds import stream

_TASK: Final = "Answer from these passages only.\n\n"


@dataclass(frozen=True)
class Retrieval(Parameterised):
    """A fixed task, passages out of a corpus in the order found, a question.

    Passages come again, but seldom at the same place: what a prefix cache can use is the task and
    the first passages. Shape: assumed, as retrieval pipelines are commonly set up: 5 passages of
    256 tokens (about 1,380 tokens of prompt), answers of about 130 tokens.
    """

    name = "rag"
    about = "retrieved passages and a question; passages come again, in other places"

    passages: int = parameter("passages", 5, "passages in a prompt", least=1)
    passage: int = parameter("passage", 256, "tokens of each", least=1)
    corpus: int = parameter("corpus", 500, "passages there are", least=1)
    zipf: float = parameter("zipf", 0.8, "exponent of their popularity; 0: all alike", least=0)
    question: Distribution = distribution(
        "in", "lognormal/96/0.3/64..256", "tokens of the rest, task and template included"
    )
    answer: Distribution = distribution("out", "lognormal/120/0.4/8..512", "tokens of the answer")
    exact: bool = parameter("exact", True, "forbid an earlier end of the answer")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """Without end."""
        popularity = Zipf(self.corpus, self.zipf)
        texts: dict[int, str] = {}
        # The task's first words are the seed's own, so that another run does not find it cached.
        about = writer.words(stream(seed, self.name, "task"), 4 * writer.lexicon.least)
        task = f"{about}: {_TASK}"
        for index in count():
            rng = stream(seed, self.name, index)
            keys = popularity.draw_distinct(rng, self.passages)
            for key in keys:
                if key not in texts:
                    texts[key] = writer.words(stream(seed, self.name, "passage", key), self.passage)
            before = task + "\n\n".join(texts[key] for key in keys) + "\n\nQuestion: "
            tokens = len(keys) * self.passage + whole(self.question, rng)
            written = writer.first_at_least(rng, tokens, before=before, after="\nAnswer:")
            yield single(self.name, written, whole(self.answer, rng), exact=self.exact)
