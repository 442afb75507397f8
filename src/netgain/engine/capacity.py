"""How many KV blocks an engine gets, or why it cannot start. No torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from netgain.config import EngineSettings
from netgain.errors import CapacityError, ConfigurationError
from netgain.kv.geometry import KVGroup
from netgain.models.config import ModelConfig
from netgain.ops.backend import StepBounds, StepMemory

_RUNTIME_RESERVE_BYTES: Final = 256 << 20
"""Interpreter, libraries and the allocator's slack, beyond what is counted."""
_AUTO_SHARE: Final = 0.25
"""Share of the memory left beside weights that a pool of unstated size may take."""
_SHORTEST: Final = 2
"""Least tokens of a sequence: one of prompt, one of answer."""


@dataclass(frozen=True, slots=True)
class CapacityPlan:
    """The pool and what surrounds it, in bytes."""

    max_model_len: int
    pool_blocks: int
    block_bytes: int
    weights_bytes: int
    activation_bytes: int
    gather_bytes: int
    """Keys and values that a backend copies together for attention."""

    @property
    def kv_bytes(self) -> int:
        """Bytes of the pool, scratch block included."""
        return (self.pool_blocks + 1) * self.block_bytes


def step_bounds(settings: EngineSettings, config: ModelConfig) -> StepBounds:
    """The largest step there will be.

    Raises `ConfigurationError` for a context longer than the model's.
    """
    longest = settings.model.max_model_len or config.max_positions
    if longest > config.max_positions:
        raise ConfigurationError(
            f"--max-model-len {longest} is beyond the {config.max_positions} positions the model "
            f"was made for; use --max-model-len {config.max_positions} or less"
        )
    return StepBounds(
        tokens=settings.scheduler.max_num_batched_tokens,
        rows=settings.scheduler.max_num_seqs,
        context=longest,
        hidden=config.hidden,
        heads=config.heads,
        kv_heads=config.kv_heads,
        head_dim=config.head_dim,
        ffn=config.ffn,
        vocab=config.vocab,
    )


def plan_capacity(
    settings: EngineSettings,
    bounds: StepBounds,
    groups: Sequence[KVGroup],
    weights_bytes: int,
    step_memory: StepMemory,
    available_bytes: int,
) -> CapacityPlan:
    """Sizes the KV pool for `available_bytes` of free memory.

    Raises `CapacityError` when the pool cannot hold one longest sequence or memory cannot hold
    everything.
    """
    longest = bounds.context
    block_tokens = settings.kv.block_tokens
    block_bytes = sum(group.record_bytes for group in groups)
    blocks_longest = -(-longest // block_tokens)
    activations = step_memory.activation_bytes
    gathered = step_memory.gathered_block_bytes
    fixed = weights_bytes + activations + _RUNTIME_RESERVE_BYTES
    useful = bounds.rows * blocks_longest
    stated = settings.kv.memory_bytes
    if stated is None:
        share = int(max(0, available_bytes - fixed) * _AUTO_SHARE)
        blocks = max(min(useful, share // (block_bytes + gathered) - 1), blocks_longest)
    else:
        blocks = stated // block_bytes - 1
        if blocks < blocks_longest:
            _refuse_pool(stated, blocks, blocks_longest, block_bytes, block_tokens, longest)
    plan = CapacityPlan(longest, blocks, block_bytes, weights_bytes, activations, blocks * gathered)
    missing = fixed + plan.kv_bytes + plan.gather_bytes - available_bytes
    if missing > 0:
        _refuse_memory(plan, fixed, missing, available_bytes, block_tokens)
    return plan


def _refuse_pool(
    stated: int,
    blocks: int,
    blocks_longest: int,
    block_bytes: int,
    block_tokens: int,
    longest: int,
) -> None:
    needed = (blocks_longest + 1) * block_bytes
    ways_out = [f"--kv-memory {needed} or more"]
    if blocks * block_tokens >= _SHORTEST:
        ways_out.insert(0, f"--max-model-len {blocks * block_tokens} or less")
    smaller = longest * block_bytes // block_tokens + block_bytes // block_tokens
    if block_tokens > 1 and smaller <= stated:
        ways_out.append("--block-tokens 1: less is lost to the last block")
    raise CapacityError(
        f"a KV pool of {stated:,} bytes holds {max(0, blocks) * block_tokens:,} tokens, one "
        f"sequence may have {longest:,} (--max-model-len)",
        needed - stated,
        ways_out,
    )


def _refuse_memory(
    plan: CapacityPlan, fixed: int, missing: int, available_bytes: int, block_tokens: int
) -> None:
    room = available_bytes - fixed
    gathered = plan.gather_bytes // plan.pool_blocks
    blocks = (room - plan.block_bytes) // (plan.block_bytes + gathered)
    ways_out: list[str] = []
    if blocks * block_tokens >= _SHORTEST:
        ways_out.append(
            f"--max-model-len {min(blocks * block_tokens, plan.max_model_len)} "
            f"and --kv-memory {(blocks + 1) * plan.block_bytes}"
        )
    ways_out.append(
        "fewer tokens or sequences per step (--max-num-batched-tokens, --max-num-seqs): "
        f"activations take {plan.activation_bytes:,} bytes"
    )
    ways_out.append(f"free memory, or a machine with {missing:,} bytes more of it")
    ways_out.append(
        f"a smaller model or fewer bits (--weights): these take {plan.weights_bytes:,} bytes"
    )
    raise CapacityError(
        f"{available_bytes:,} bytes of memory are free; weights {plan.weights_bytes:,}, KV pool "
        f"{plan.kv_bytes:,}, gathered keys and values {plan.gather_bytes:,}, activations "
        f"{plan.activation_bytes:,} and the runtime {_RUNTIME_RESERVE_BYTES:,} do not fit",
        missing,
        ways_out[:3],
    )
