"""netgain itself, in process, in the repository's own environment.

Runs as `python -m benchmarks.peers.netgain_peer [--as-served]`.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.protocol import LoadRequest, Times, check_counts, serve
from netgain import LLM, SamplingParams, __version__
from netgain.models.checkpoint import open_checkpoint

_BLOCK_TOKENS = 16
_ELEMENT_BYTES = {"fp32": 4, "int8": 1}
"""Of one stored key or value; 2 for what is not listed. Scales are small and left out."""


class Netgain:
    """`netgain.LLM`; first and last token times are its ledger's.

    With `as_served` it keeps the settings of `netgain serve`, chunks of prefill cut for latency
    among them, and takes only the options given.
    """

    def __init__(self, *, as_served: bool) -> None:
        self._as_served = as_served

    def load(self, request: LoadRequest) -> dict[str, str]:
        """Loads the GGUF. Options: any argument of `LLM`."""
        arguments: dict[str, object] = {}
        if not self._as_served:
            tokens = max(request.sequences * request.context_tokens, request.longest_tokens)
            arguments = {
                "max_model_len": request.longest_tokens - _BLOCK_TOKENS,
                "max_num_seqs": request.sequences,
                "max_num_batched_tokens": request.step_tokens,
                # A prompt is prefilled whole, as for everyone here.
                "step_time_target_s": 60.0,
                "block_tokens": _BLOCK_TOKENS,
                "kv_memory": tokens * kv_token_bytes(request),
            }
        arguments |= request.options
        self._llm = LLM(request.model, **arguments)  # type: ignore[arg-type]
        info = self._llm.info
        return {
            "netgain": __version__,
            "arguments": json.dumps(arguments),
            "weights": f"{info.weight_bytes / 1e6:.0f} MB",
            "kv": f"{info.kv_bytes / 1e6:.0f} MB, {info.kv_blocks * info.kv_block_tokens} tokens",
        }

    def generate(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> list[Times]:
        """All requests at once, on an empty prefix cache."""
        self._llm.reset_prefix_cache()
        params = [
            SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True) for count in tokens
        ]
        answers = self._llm.generate(prompts, params)
        check_counts([len(answer.token_ids) for answer in answers], tokens)
        return [Times(answer.ledger.ttft_s or 0.0, answer.ledger.e2e_s) for answer in answers]


def kv_token_bytes(request: LoadRequest) -> int:
    """Bytes of one token's keys and values in all layers, in the type that the options name."""
    config = open_checkpoint(Path(request.model)).config
    element = _ELEMENT_BYTES.get(str(request.options.get("kv_dtype", "fp32")), 2)
    return 2 * config.layers * config.kv_heads * config.head_dim * element


if __name__ == "__main__":
    serve(Netgain(as_served="--as-served" in sys.argv))
