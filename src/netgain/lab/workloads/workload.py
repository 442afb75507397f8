"""What a workload is: a named source of conversations, the same ones for the same seed."""

from collections.abc import Iterator
from itertools import islice
from typing import Protocol

from netgain.errors import ConfigurationError
from netgain.lab.conversation import Conversation
from netgain.lab.workloads.prompt_writer import PromptWriter


class WorkloadError(ConfigurationError):
    """A workload that was asked for wrongly, or cannot be made."""


class Workload(Protocol):
    """A source of conversations.

    `distinct_by_seed`: two seeds never give prompts that share more than the template, so that a
    repeat with another seed cannot meet what an earlier one left in the server's cache; False
    where the prompts come from a file word by word.
    """

    @property
    def name(self) -> str:
        """As on the command line."""
        ...

    @property
    def description(self) -> str:
        """With its parameters, for reports."""
        ...

    @property
    def size(self) -> int | None:
        """How many conversations; None: without end."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What of a file was left out, and why."""
        ...

    @property
    def distinct_by_seed(self) -> bool:
        """Whether another seed gives other prompts."""
        ...

    @property
    def timed(self) -> bool:
        """Whether conversations say when they start."""
        ...

    def conversations(self, writer: PromptWriter, seed: int) -> Iterator[Conversation]:
        """All of them, one by one, in order of `start_s` where they have one.

        Raises `WorkloadError` for a prompt that cannot be made as asked.
        """
        ...


def take(workload: Workload, writer: PromptWriter, seed: int, count: int) -> list[Conversation]:
    """The first `count` conversations, or all where there are fewer."""
    return list(islice(workload.conversations(writer, seed), count))
