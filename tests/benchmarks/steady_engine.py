"""An engine for the peers' protocol that computes nothing: one millisecond a step, as it says.

Its option `fault` chooses how it fails: `load`, `generate`, `die` or `short`.
"""

import os
import signal
import sys
from collections.abc import Sequence

from benchmarks.peers.protocol import LoadRequest, Times, check_counts, serve

STEP_S = 0.001


class SteadyEngine:
    """Every step, the prefill too, takes `STEP_S`."""

    def load(self, request: LoadRequest) -> dict[str, str]:
        self._fault = request.options.get("fault")
        sys.stdout.write("libraries print to standard output\n")
        if self._fault == "load":
            raise RuntimeError("several lines\nno weights for this processor\n")
        return {"precision": "none"}

    def generate(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> list[Times]:
        assert len(prompts) == len(tokens)
        if len(prompts) > 1:
            if self._fault == "die":
                os.write(2, b"about to go\n")
                os.kill(os.getpid(), signal.SIGILL)
            if self._fault == "generate":
                raise ValueError("too many sequences")
            if self._fault == "short":
                check_counts([0] * len(prompts), tokens)
        return [Times(STEP_S, STEP_S * count) for count in tokens]


if __name__ == "__main__":
    serve(SteadyEngine())
