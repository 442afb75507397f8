"""What a step has to do: slices of sequences, new tokens after cached ones."""

from dataclasses import dataclass

from netgain.cost.step_time import StepLoad, causal_pairs
from netgain.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Slices:
    """`sequences` alike: each computes `new` tokens after `cached` ones, and `logits` rows."""

    sequences: int
    new: int
    cached: int = 0
    logits: int = 1

    def __post_init__(self) -> None:
        """Raises `ConfigurationError` for empty or negative slices."""
        if self.sequences < 1 or self.new < 1 or self.cached < 0 or self.logits < 0:
            raise ConfigurationError(
                f"a slice of {self.new} new tokens after {self.cached}, {self.sequences} times: "
                "give 1 or more of both, after 0 or more"
            )


@dataclass(frozen=True, slots=True)
class StepWork:
    """All slices of one step."""

    slices: tuple[Slices, ...]

    @property
    def tokens(self) -> int:
        """New tokens."""
        return sum(part.sequences * part.new for part in self.slices)

    @property
    def sequences(self) -> int:
        """Sequences taking part."""
        return sum(part.sequences for part in self.slices)

    @property
    def logit_rows(self) -> int:
        """Rows that go through the output head."""
        return sum(part.sequences * min(part.logits, part.new) for part in self.slices)

    def context_tokens(self, window: int | None = None) -> float:
        """Cached and new tokens whose keys and values one layer reads.

        A window of w needs w - 1 tokens before the first new one.
        """
        return sum(
            part.sequences * (part.new + min(part.cached, _before(window))) for part in self.slices
        )

    def pairs(self, window: int | None = None) -> float:
        """(query, key) pairs of causal attention, each query seeing at most `window` keys."""
        return sum(
            part.sequences * _windowed_pairs(part.cached, part.new, window) for part in self.slices
        )


def decode(sequences: int, context: int) -> StepWork:
    """One new token each, after `context` tokens."""
    return StepWork((Slices(sequences, 1, context),))


def verify(sequences: int, context: int, drafts: int) -> StepWork:
    """`drafts` + 1 new tokens each, all of which need logits."""
    return StepWork((Slices(sequences, drafts + 1, context, drafts + 1),))


def prefill(tokens: int, cached: int = 0, sequences: int = 1) -> StepWork:
    """`tokens` new ones after a cached prefix, in one step; one row of logits at the end."""
    return StepWork((Slices(sequences, tokens, cached),))


def of_load(load: StepLoad) -> StepWork:
    """Work of about this load: its slices taken as equally long.

    Tokens are exact, context and pairs exact where the slices are alike.
    """
    if not load.slices:
        return StepWork(())
    new = max(1, round(load.tokens / load.slices))
    cached = max(0, round(load.context_tokens / load.slices) - new)
    return StepWork((Slices(load.slices, new, cached),))


def _before(window: int | None) -> float:
    return float("inf") if window is None else window - 1


def _windowed_pairs(cached: int, new: int, window: int | None) -> int:
    if window is None or cached + new <= window:
        return causal_pairs(cached, new)
    growing = max(0, window - cached)  # queries that still see everything before them
    return causal_pairs(cached, growing) + (new - growing) * window
