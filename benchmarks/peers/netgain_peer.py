"""netgain itself, in process, in the repository's own environment.

Runs as `python -m benchmarks.peers.netgain_peer`.
"""

import json
from collections.abc import Sequence

from benchmarks.peers.protocol import LoadRequest, Times, check_counts, serve
from netgain import LLM, SamplingParams, __version__


class Netgain:
    """`netgain.LLM`; first and last token times are its ledger's."""

    def load(self, request: LoadRequest) -> dict[str, str]:
        """Loads the GGUF. Options: any argument of `LLM`."""
        arguments: dict[str, object] = {
            "max_model_len": max(request.context_tokens, request.longest_tokens),
            "max_num_seqs": request.sequences,
            "max_num_batched_tokens": request.step_tokens,
            # A prompt is prefilled whole, as for everyone here.
            "step_time_target_s": 60.0,
        } | dict(request.options)
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
        return [
            Times(answer.ledger.ttft_s or 0.0, answer.ledger.e2e_s) for answer in answers
        ]


if __name__ == "__main__":
    serve(Netgain())
