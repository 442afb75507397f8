"""OpenVINO GenAI: reads the GGUF directly, continuous batching over a paged cache.

Runs in its own environment: `python -m benchmarks.peers.openvino`.
"""

import time
from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
import openvino as ov
import openvino_genai as genai

from benchmarks.peers.protocol import LoadRequest, Times, check_counts, seconds_since, serve

_BLOCK_TOKENS = 32
"""Of the CPU plugin's paged cache."""


class OpenVINO:
    """A `ContinuousBatchingPipeline`, driven one step at a time."""

    def load(self, request: LoadRequest) -> dict[str, str]:
        """Compiles the model for the CPU; the plugin chooses the precision unless told.

        Options: any property of the CPU plugin, for example `INFERENCE_PRECISION_HINT`.
        """
        scheduler = genai.SchedulerConfig()
        # A prompt is one step, as for everyone here.
        scheduler.dynamic_split_fuse = False
        scheduler.max_num_batched_tokens = request.step_tokens
        scheduler.max_num_seqs = request.sequences
        scheduler.enable_prefix_caching = False
        tokens = max(request.sequences * request.context_tokens, request.longest_tokens)
        scheduler.num_kv_blocks = tokens // _BLOCK_TOKENS + request.sequences
        properties = {"INFERENCE_NUM_THREADS": request.threads} | dict(request.options)
        self._pipeline = genai.ContinuousBatchingPipeline(
            request.model, scheduler, "CPU", properties
        )
        self._requests = 0
        return {
            "openvino-genai": version("openvino-genai"),
            "openvino": version("openvino"),
            "precision": precision(properties),
            "capabilities": " ".join(ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")),
        }

    def generate(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> list[Times]:
        """Adds all requests, then steps until all have ended."""
        began = time.perf_counter()
        handles = []
        for prompt, count in zip(prompts, tokens, strict=True):
            config = genai.GenerationConfig()
            config.max_new_tokens = count
            config.ignore_eos = True
            config.apply_chat_template = False
            self._requests += 1
            ids = ov.Tensor(np.array([prompt], dtype=np.int64))
            handles.append(self._pipeline.add_request(self._requests, ids, config))
        first: dict[int, float] = {}
        last: dict[int, float] = {}
        got = [0] * len(prompts)
        while self._pipeline.has_non_finished_requests():
            self._pipeline.step()
            now = seconds_since(began)
            for index, handle in enumerate(handles):
                if not handle.can_read():
                    continue
                for output in handle.read().values():
                    got[index] += len(output.generated_ids)
                first.setdefault(index, now)
                last[index] = now
        check_counts(got, tokens)
        return [Times(first[index], last[index]) for index in range(len(prompts))]


def precision(properties: dict[str, object]) -> str:
    """What the CPU plugin infers in, asked of a compiled model of one addition."""
    opset = ov.opset13
    value = opset.parameter([1], np.float32)
    model = ov.Model([opset.add(value, value)], [value])
    compiled = ov.Core().compile_model(model, "CPU", properties)
    kind: str = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
    return kind


if __name__ == "__main__":
    serve(OpenVINO())
