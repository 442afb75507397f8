"""How a run ended and what is to be known about it: the last line of its file."""

import msgspec

from netgain.lab.load_plan import Ended


class RunEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="end"):
    """`reason` says more where the run did not end by itself.

    `cache_held`: whether the declared state of the cache held, None where that cannot be known;
    `cache_text` with what was counted. `notes` are for the reader: what was left out, how lengths
    were counted. `unwritten`: from where on records are missing in the file, and why.
    """

    ended: Ended
    reason: str = ""
    cache_held: bool | None = None
    cache_text: str = ""
    notes: tuple[str, ...] = ()
    unwritten: str = ""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes the run's numbers doubtful."""
        said = []
        if self.reason:
            said.append(f"The run ended early ({self.ended.value}): {self.reason}.")
        if self.unwritten:
            said.append(f"The file of records is not whole: {self.unwritten}.")
        if self.cache_held is False:
            said.append(f"Cache {self.cache_text}.")
        return tuple(said)
