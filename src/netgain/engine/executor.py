"""Who runs steps: in this process, on many ranks, or in virtual time."""

from typing import Protocol

from netgain.engine.step import Step


class Executor(Protocol):
    """Runs steps in the order they are submitted and reports each with a `StepDone` event.

    Where the event goes is the driver's affair: a queue, an asyncio loop, a heap of virtual time.
    """

    def submit(self, step: Step) -> None:
        """Takes a step; returns at once."""
        ...

    def close(self) -> None:
        """Ends the executor; steps not begun are dropped."""
        ...
