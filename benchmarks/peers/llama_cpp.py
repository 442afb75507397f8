"""llama.cpp through llama-cpp-python's low-level API: real batched decode, several sequences.

Runs in its own environment: `python -m benchmarks.peers.llama_cpp`.
"""

import ctypes
import re
import time
from collections.abc import Sequence
from importlib.metadata import version

import llama_cpp as lib
import numpy as np

from benchmarks.peers.protocol import LoadRequest, Times, seconds_since, serve

_WORTH_KNOWING = re.compile(r"model buffer size|KV buffer size|Flash Attention", re.IGNORECASE)
_BATCH = 2048
"""Tokens of one `llama_decode`; llama.cpp's default. It cuts them into `n_ubatch` itself."""


class LlamaCpp:
    """One model, two contexts: one long sequence, or many shorter ones.

    With one cache for all sequences every token would attend, masked, over everybody's cells; a
    context with a stream for each sequence does not.
    """

    def load(self, request: LoadRequest) -> dict[str, str]:
        """Loads the GGUF as it is: KV in fp16, native instruction sets.

        Options: `flash_attention` (default true), `ubatch` (llama.cpp's default is 512).
        """
        said: list[str] = []

        def log(_level: int, text: bytes, _data: ctypes.c_void_p) -> None:
            line = " ".join(text.decode("utf-8", "replace").split())
            if _WORTH_KNOWING.search(line):
                said.append(line.partition(": ")[2])

        # llama.cpp keeps the pointer, not the object.
        self._log = lib.llama_log_callback(log)
        lib.llama_log_set(self._log, ctypes.c_void_p(0))
        lib.llama_backend_init()
        model = lib.llama_model_load_from_file(
            request.model.encode(), lib.llama_model_default_params()
        )
        if not model:
            raise RuntimeError(f"llama.cpp cannot load {request.model}")
        self._vocab = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        self._one = _Context(model, request, 1, request.longest_tokens)
        self._many = self._one
        if request.sequences > 1:
            self._many = _Context(model, request, request.sequences, request.context_tokens)
        return {
            "llama-cpp-python": version("llama-cpp-python"),
            "system": lib.llama_print_system_info().decode().strip(),
            "buffers": "; ".join(dict.fromkeys(said)),
            "flash_attention": str(_flash(request)),
            "kv": "fp16",
        }

    def generate(self, prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> list[Times]:
        """Prefills all prompts, then decodes all unfinished sequences in one batch a step."""
        context = self._one if len(prompts) == 1 else self._many
        return context.generate(prompts, tokens, self._vocab)


class _Context:
    """A KV cache with a stream of `context_tokens` for each of `sequences`."""

    def __init__(
        self, model: object, request: LoadRequest, sequences: int, context_tokens: int
    ) -> None:
        params = lib.llama_context_default_params()
        params.n_ctx = sequences * context_tokens
        params.n_seq_max = sequences
        params.n_batch = _BATCH
        params.n_ubatch = int(str(request.options.get("ubatch", params.n_ubatch)))
        params.n_threads = params.n_threads_batch = request.threads
        params.flash_attn_type = (
            lib.LLAMA_FLASH_ATTN_TYPE_ENABLED
            if _flash(request)
            else lib.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        params.kv_unified = False
        self._context = lib.llama_init_from_model(model, params)
        if not self._context:
            raise RuntimeError("llama.cpp cannot make a context")
        self._batch = lib.llama_batch_init(_BATCH, 0, 1)

    def generate(
        self, prompts: Sequence[Sequence[int]], tokens: Sequence[int], vocab: int
    ) -> list[Times]:
        lib.llama_memory_clear(lib.llama_get_memory(self._context), True)
        began = time.perf_counter()
        fed = [
            (sequence, position, token, position == len(prompt) - 1)
            for sequence, prompt in enumerate(prompts)
            for position, token in enumerate(prompt)
        ]
        newest: dict[int, int] = {}
        for start in range(0, len(fed), _BATCH):
            newest |= self._step(fed[start : start + _BATCH], vocab)
        # Prompts of several batches end one after the other, but nobody decodes before the last.
        first = dict.fromkeys(range(len(prompts)), seconds_since(began))
        last = dict(first)
        for done in range(1, max(tokens)):
            step = [
                (sequence, len(prompts[sequence]) + done - 1, newest[sequence], True)
                for sequence in range(len(prompts))
                if tokens[sequence] > done
            ]
            newest |= self._step(step, vocab)
            now = seconds_since(began)
            last |= {sequence: now for sequence, _, _, _ in step}
        return [Times(first[sequence], last[sequence]) for sequence in range(len(prompts))]

    def _step(self, fed: Sequence[tuple[int, int, int, bool]], vocab: int) -> dict[int, int]:
        """Feeds (sequence, position, token, answer wanted); the greedy token of each wanted one."""
        batch = self._batch
        batch.n_tokens = len(fed)
        for index, (sequence, position, token, wanted) in enumerate(fed):
            batch.token[index] = token
            batch.pos[index] = position
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = sequence
            batch.logits[index] = wanted
        code = lib.llama_decode(self._context, batch)
        if code != 0:
            raise RuntimeError(f"llama_decode returned {code} for {len(fed)} tokens")
        newest: dict[int, int] = {}
        for index, (sequence, _, _, wanted) in enumerate(fed):
            if wanted:
                logits = lib.llama_get_logits_ith(self._context, index)
                newest[sequence] = int(np.ctypeslib.as_array(logits, (vocab,)).argmax())
        return newest


def _flash(request: LoadRequest) -> bool:
    return bool(request.options.get("flash_attention", True))


if __name__ == "__main__":
    serve(LlamaCpp())
