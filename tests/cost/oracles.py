"""What predictions are held against: the peaks themselves, and a loop of clients."""

from typing import Final

from netgain.cost.roofline import Efficiency, RooflineModel

IDEAL: Final = Efficiency(
    memory=1.0, compute=1.0, launch_s=0.0, grouped=1.0, unpacked=1.0, waste=0.0
)
"""Nothing can be faster."""


def closed_loop_tpot_s(model: RooflineModel, sequences: int, prompt: int, answer: int) -> float:
    """Seconds per token and sequence when `sequences` clients ask again at once.

    A decode step at the mean context, and the share of a prefill that each step carries: every
    sequence needs one in `answer` steps.
    """
    step_s = model.decode_s(sequences, prompt + answer // 2)
    return step_s + model.prefill_s(prompt) * sequences / answer
