"""Code to be completed: punctuation, indentation, names that come again."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from keyword import iskeyword
from typing import Final

from netgain.lab.conversation import Conversation
from netgain.lab.workloads.distribution import Distribution, whole
from netgain.lab.workloads.lengths_only import single
from netgain.lab.workloads.parameters import Parameterised, distribution, parameter
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.seeds import stream
from netgain.lab.workloads.words import WORDS

_RESERVE_TOKENS: Final = 48
"""Left for the comment that makes the length exact, and the unfinished line."""
_NAMES: Final = tuple(word for word in WORDS if not iskeyword(word))
_HEADING_TOKENS: Final = 20
"""Of the comment at the top: no two files begin alike."""


@dataclass(frozen=True)
class CodeCompletion(Parameterised):
    """A file of small functions whose last one is unfinished.

    Shape: the coding service of the Azure 2023 traces (Splitwise, ISCA 2024): median prompt 1,500
    tokens, median answer 13.
    """

    name = "code"
    about = "code completion, shaped like Azure's coding trace: long prompts, very short answers"

    prompt: Distribution = distribution(
        "in", "lognormal/1500/0.7/64..7000", "tokens of the prompt, template included"
    )
    answer: Distribution = distribution("out", "lognormal/13/0.8/1..256", "tokens of the answer")
    exact: bool = parameter("exact", True, "forbid an earlier end of the answer")

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """Without end."""
        framing = writer.framing()
        around = framing.lead + framing.tail + _RESERVE_TOKENS
        for index in count():
            rng = stream(seed, self.name, index)
            tokens = whole(self.prompt, rng)
            names = rng.sample(_NAMES, 12)
            before = "# " + _functions(writer, rng, names, tokens - around) + "\n# "
            after = f"\ndef {rng.choice(names)}_{rng.choice(names)}("
            written = writer.first_at_least(rng, tokens, before=before, after=after)
            yield single(self.name, written, whole(self.answer, rng), exact=self.exact)


def _functions(writer: PromptWriter, rng: random.Random, names: list[str], tokens: int) -> str:
    """A heading and as many functions as fit into `tokens`."""
    parts = [writer.words(rng, _HEADING_TOKENS), _function(rng, names)]
    each = max(1, writer.count(parts[1]))
    parts += [_function(rng, names) for _ in range(tokens // each)]
    text = "\n".join(parts)
    while len(parts) > 1 and (over := writer.count(text) - tokens) > 0:
        del parts[max(1, len(parts) - max(1, over // (2 * each))) :]
        text = "\n".join(parts)
    return text


def _function(rng: random.Random, names: list[str]) -> str:
    a, b, c, d = rng.sample(names, 4)
    body = rng.choice(
        (
            f"    if {b} > {rng.randrange(100)}:\n        return {c}\n    return {b} + {c}",
            f"    {d} = []\n    for item in {b}:\n        {d}.append(item * {c})\n    return {d}",
            f"    self.{d} = {b}[{c}]\n    return self.{d}",
            f"    with open({b}) as file:\n        return file.read({c}).split()",
        )
    )
    return f"\ndef {a}_{d}({b}, {c}):\n{body}\n"
