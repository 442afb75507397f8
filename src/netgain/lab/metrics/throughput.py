"""What came out per second of the window."""

import math
from dataclasses import dataclass

import numpy as np

from netgain.lab.metrics.blocks import TimeBlocks
from netgain.lab.metrics.columns import FloatArray, RequestColumns
from netgain.lab.metrics.estimate import LEVEL, Estimate, t_quantile
from netgain.lab.metrics.grouped import sums
from netgain.lab.metrics.trimming import Window


@dataclass(frozen=True, slots=True)
class Throughput:
    """Per second of the window, each with its interval from blocks in time.

    `offered`: requests that were to start. `answered`: requests whose answer ended whole.
    `output_tokens`: tokens that *arrived* in the window, whoever's they are, those of answers that
    later failed included. `total_tokens`: these and the prompts whose first token arrived in it;
    None where no prompt's length is known.
    """

    offered: Estimate
    answered: Estimate
    output_tokens: Estimate
    total_tokens: Estimate | None

    @classmethod
    def of(cls, columns: RequestColumns, window: Window, blocks: TimeBlocks) -> "Throughput":
        """Over `window`, whose blocks are `blocks`."""
        prompts = np.nan_to_num(columns.prompt_tokens)
        total = None
        if (~np.isnan(columns.prompt_tokens)).any():
            total = _rate(
                np.concatenate([columns.event_at_s, columns.first_token_s]),
                np.concatenate([columns.event_tokens, prompts]),
                window,
                blocks,
            )
        ones = np.ones(len(columns))
        return cls(
            offered=_rate(columns.start_s, ones, window, blocks),
            answered=_rate(columns.end_s, columns.answered.astype(np.float64), window, blocks),
            output_tokens=_rate(columns.event_at_s, columns.event_tokens, window, blocks),
            total_tokens=total,
        )


def rate_estimate(per_block: FloatArray, length_s: float) -> Estimate:
    """A rate from what each of equal blocks of `length_s` seconds saw."""
    rates = per_block / length_s
    value = float(rates.mean())
    if len(rates) < 2:
        return Estimate(value)
    error = float(rates.std(ddof=1)) / math.sqrt(len(rates))
    half = t_quantile((1 + LEVEL) / 2, len(rates) - 1) * error
    return Estimate(value, max(0.0, value - half), value + half)


def _rate(at_s: FloatArray, amounts: FloatArray, window: Window, blocks: TimeBlocks) -> Estimate:
    if window.length_s <= 0:
        return Estimate(math.nan)
    inside = window.holds(at_s)
    per_block = sums(blocks.of(at_s[inside]), amounts[inside], blocks.count)
    return rate_estimate(per_block, blocks.length_s)
