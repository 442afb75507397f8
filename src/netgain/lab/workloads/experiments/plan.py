"""An experiment as data: arms to run one after another, and what came of them."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from netgain.lab.conversation import Conversation
from netgain.lab.record import RequestRecord
from netgain.lab.run_header import CacheState, LoadKind
from netgain.lab.workloads.cache_counters import CacheCounters
from netgain.lab.workloads.cache_state import CacheVerdict, warming
from netgain.lab.workloads.prompt_writer import PromptWriter
from netgain.lab.workloads.workload import Workload

NO_TIER: Final = "the engine keeps KV on the device only: there is no tier below it yet"
NO_POOLS: Final = "the engine serves prefill and decode in one pool: separate pools are not built"


@dataclass(frozen=True, slots=True)
class ArmLoad:
    """How an arm's conversations are sent: so many at once, or Poisson at a rate (a second)."""

    kind: LoadKind
    conversations: int
    concurrency: int | None = None
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Arm:
    """One condition.

    Equal `prompts` mean equal prompts at one seed. `warm_up` is sent before the run, through
    `warming`, and is no part of the results. `server_flags` are what `netgain serve` must be
    started with; such an arm cannot be run on a server that somebody else started. Where
    `unavailable` says something, the arm cannot be run: it is the reason.
    """

    name: str
    title: str
    workload: Workload
    load: ArmLoad
    cache: CacheState = CacheState.UNDECLARED
    warm_up: Workload | None = None
    warm_up_conversations: int = 0
    prompts: str = ""
    server_flags: tuple[str, ...] = ()
    unavailable: str = ""

    def conversations(self, writer: PromptWriter, seed: int) -> list[Conversation]:
        """What the run sends."""
        source = self.workload.conversations(writer, seed)
        return list(islice(source, self.load.conversations))

    def warming_pass(self, writer: PromptWriter, seed: int) -> list[Conversation]:
        """What is sent before it; nothing where there is no warm-up."""
        if self.warm_up is None:
            return []
        source = self.warm_up.conversations(writer, seed)
        return list(warming(islice(source, self.warm_up_conversations)))


@dataclass(frozen=True, slots=True)
class Experiment:
    """Arms that answer one question together."""

    name: str
    title: str
    about: tuple[str, ...]
    arms: tuple[Arm, ...]

    @property
    def runnable(self) -> tuple[Arm, ...]:
        """Those that can be run."""
        return tuple(arm for arm in self.arms if not arm.unavailable)

    def on_given_server(self) -> "Experiment":
        """The same on one server that is running already: arms that need flags fall away."""
        return dataclasses.replace(
            self,
            arms=tuple(
                dataclasses.replace(
                    arm,
                    unavailable="needs a server of its own: netgain serve "
                    + " ".join(arm.server_flags),
                )
                if arm.server_flags and not arm.unavailable
                else arm
                for arm in self.arms
            ),
        )


@dataclass(frozen=True, slots=True)
class ArmResult:
    """What one arm gave.

    `counted`: the server's counters over the run, without the warm-up. `nonce` as the prompts were
    written with: arms of another nonce had other prompts.
    """

    arm: Arm
    records: Sequence[RequestRecord]
    counted: CacheCounters | None = None
    cache: CacheVerdict | None = None
    notes: tuple[str, ...] = ()
    nonce: str = ""
