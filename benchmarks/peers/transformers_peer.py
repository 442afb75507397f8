"""transformers in fp32 on torch: a forward pass a step, keys and values in its dynamic cache.

Runs in its own environment: `python -m benchmarks.peers.transformers_peer`.
"""

import time
from collections.abc import Sequence
from importlib.metadata import version

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from benchmarks.peers.protocol import LoadRequest, Times, seconds_since, serve


class Transformers:
    """`LlamaForCausalLM`, as `generate` would call it, without `generate`'s own overhead."""

    def load(self, request: LoadRequest) -> dict[str, str]:
        """Loads the fp32 checkpoint; attention is torch's scaled dot product."""
        torch.set_num_threads(request.threads)
        torch.set_grad_enabled(False)
        self._model = AutoModelForCausalLM.from_pretrained(
            request.checkpoint, dtype=torch.float32, attn_implementation="sdpa"
        )
        self._model.requires_grad_(False)
        return {
            "transformers": version("transformers"),
            "torch": torch.__version__,
            "precision": "f32",
            "capabilities": torch.backends.cpu.get_cpu_capability(),
        }

    def generate(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> list[Times]:
        """Prefills the prompts, all of one length, in one batch; finished rows leave it."""
        began = time.perf_counter()
        # Longest first, so that who ends leaves from the back of the batch.
        order = sorted(range(len(prompts)), key=lambda index: -tokens[index])
        cache = DynamicCache(config=self._model.config)
        ids = torch.tensor([prompts[index] for index in order])
        newest = self._step(ids, cache)
        first = seconds_since(began)
        last = dict.fromkeys(order, first)
        for done in range(1, max(tokens)):
            running = sum(tokens[index] > done for index in order)
            if running < len(newest):
                newest = newest[:running]
                cache.batch_select_indices(torch.arange(running))
            newest = self._step(newest[:, None], cache)
            now = seconds_since(began)
            last |= dict.fromkeys(order[:running], now)
        return [Times(first, last[index]) for index in range(len(prompts))]

    def _step(self, ids: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
        """Greedy next token `[batch]` after `ids` `[batch, tokens]`."""
        out = self._model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1)
        newest: torch.Tensor = out.logits[:, -1].argmax(-1)
        return newest


if __name__ == "__main__":
    serve(Transformers())
