"""What fits, what does not, and that following the advice makes it fit."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netgain.config import EngineSettings, KVSettings, ModelSettings, SchedulerSettings
from netgain.engine.capacity import CapacityPlan, plan_capacity, step_bounds
from netgain.errors import CapacityError, ConfigurationError
from netgain.models.config import Architecture, ModelConfig, Rope
from netgain.ops.backend import StepMemory

MODEL = ModelConfig(
    architecture=Architecture.LLAMA,
    hidden=64,
    layers=4,
    heads=4,
    kv_heads=2,
    head_dim=16,
    ffn=128,
    vocab=1000,
    rms_eps=1e-5,
    rope=Rope(10000.0),
    tie_embeddings=True,
    max_positions=512,
    bos_id=1,
    eos_ids=(2,),
)
TOKEN_BYTES = 2 * 4 * 2 * 16 * 4
LAYER_TOKEN_BYTES = TOKEN_BYTES // 4
"""Of one of four layers: what attention gathers."""
WEIGHTS = 1_234_567
RESERVE = 256 << 20
PLENTY = 64 << 30


def settings(
    *,
    max_model_len: int | None = None,
    memory_bytes: int | None = None,
    block_tokens: int = 16,
    seqs: int = 8,
    tokens: int = 256,
) -> EngineSettings:
    return EngineSettings(
        model=ModelSettings(max_model_len=max_model_len),
        scheduler=SchedulerSettings(max_num_seqs=seqs, max_num_batched_tokens=tokens),
        kv=KVSettings(block_tokens=block_tokens, memory_bytes=memory_bytes),
    )


def plan(wanted: EngineSettings, available: int = PLENTY) -> CapacityPlan:
    groups = MODEL.kv_groups(wanted.kv.block_tokens)
    bounds = step_bounds(wanted, MODEL)
    memory = StepMemory(activations(wanted), wanted.kv.block_tokens * LAYER_TOKEN_BYTES)
    return plan_capacity(wanted, bounds, groups, WEIGHTS, memory, available)


def activations(wanted: EngineSettings) -> int:
    """What a backend might say: more for more tokens, sequences and context."""
    longest = wanted.model.max_model_len or 512
    tokens, rows = wanted.scheduler.max_num_batched_tokens, wanted.scheduler.max_num_seqs
    return 1000 * tokens + 8 * MODEL.vocab * rows + 4 * tokens * longest


def fixed_bytes(wanted: EngineSettings) -> int:
    return WEIGHTS + activations(wanted) + RESERVE


def pool_bytes(blocks: int, block_tokens: int = 16) -> int:
    """A pool, its scratch block, and the gathered copy of one layer."""
    return block_tokens * ((blocks + 1) * TOKEN_BYTES + blocks * LAYER_TOKEN_BYTES)


def advised(error: CapacityError, flag: str) -> int | None:
    """The number that a way out puts behind a flag."""
    for way in error.ways_out:
        if found := re.search(rf"{flag} (\d+)", way):
            return int(found.group(1))
    return None


def test_a_stated_pool_is_used_to_the_last_whole_block() -> None:
    block = 16 * TOKEN_BYTES
    made = plan(settings(memory_bytes=40 * block + block - 1))
    assert made.pool_blocks == 39
    assert made.kv_bytes == 40 * block


def test_without_a_stated_size_every_sequence_may_be_longest_when_memory_is_plenty() -> None:
    made = plan(settings(seqs=8))
    assert made.max_model_len == 512
    assert made.pool_blocks == 8 * 32


@given(
    available=st.integers(0, 1 << 31),
    seqs=st.integers(1, 256),
    block_tokens=st.integers(1, 64),
    max_model_len=st.none() | st.integers(2, 512),
)
def test_a_pool_of_unstated_size_stays_within_its_bounds(
    available: int, seqs: int, block_tokens: int, max_model_len: int | None
) -> None:
    wanted = settings(seqs=seqs, block_tokens=block_tokens, max_model_len=max_model_len)
    longest = -(-(max_model_len or 512) // block_tokens)
    needed = fixed_bytes(wanted) + pool_bytes(longest, block_tokens)
    if available < needed:
        with pytest.raises(CapacityError) as refused:
            plan(wanted, available)
        assert refused.value.shortfall_bytes == needed - available
        return
    made = plan(wanted, available)
    assert longest <= made.pool_blocks <= seqs * longest
    assert made.gather_bytes == made.pool_blocks * block_tokens * LAYER_TOKEN_BYTES
    assert fixed_bytes(wanted) + made.kv_bytes + made.gather_bytes <= available
    if made.pool_blocks > longest:
        assert made.kv_bytes + made.gather_bytes <= (available - fixed_bytes(wanted)) / 4


def test_exactly_enough_memory_starts_and_one_byte_less_does_not() -> None:
    wanted = settings()
    with pytest.raises(CapacityError) as refused:
        plan(wanted, 0)
    enough = refused.value.shortfall_bytes
    assert plan(wanted, enough).pool_blocks == 32
    with pytest.raises(CapacityError) as refused:
        plan(wanted, enough - 1)
    assert refused.value.shortfall_bytes == 1


@pytest.mark.parametrize("stated", [1, 5000, 40_000, 500_000])
@pytest.mark.parametrize("block_tokens", [1, 16, 100])
def test_a_pool_too_small_for_one_sequence_names_sizes_that_start(
    stated: int, block_tokens: int
) -> None:
    with pytest.raises(CapacityError) as refused:
        plan(settings(memory_bytes=stated, block_tokens=block_tokens))
    error = refused.value
    grown = plan(settings(memory_bytes=stated + error.shortfall_bytes, block_tokens=block_tokens))
    assert grown.max_model_len == 512
    assert advised(error, "--kv-memory") == stated + error.shortfall_bytes
    shorter = advised(error, "--max-model-len")
    if shorter is not None:
        plan(settings(memory_bytes=stated, block_tokens=block_tokens, max_model_len=shorter))
    if advised(error, "--block-tokens"):
        plan(settings(memory_bytes=stated, block_tokens=1))
    assert str(error.shortfall_bytes) in str(error).replace(",", "")


def test_a_pool_one_byte_short_is_short_by_one_byte() -> None:
    needed = 33 * 16 * TOKEN_BYTES
    assert plan(settings(memory_bytes=needed)).pool_blocks == 32
    with pytest.raises(CapacityError) as refused:
        plan(settings(memory_bytes=needed - 1))
    assert refused.value.shortfall_bytes == 1


def test_smaller_blocks_are_advised_only_where_they_are_enough() -> None:
    # 20 tokens need two blocks of 16 and scratch, or 21 blocks of 1.
    stated = 21 * TOKEN_BYTES
    with pytest.raises(CapacityError) as refused:
        plan(settings(memory_bytes=stated, max_model_len=20))
    assert advised(refused.value, "--block-tokens") == 1
    plan(settings(memory_bytes=stated, max_model_len=20, block_tokens=1))
    with pytest.raises(CapacityError) as refused:
        plan(settings(memory_bytes=stated - 1, max_model_len=20))
    assert advised(refused.value, "--block-tokens") is None


def test_every_advised_context_length_is_one_that_can_be_set() -> None:
    for stated in range(TOKEN_BYTES, 40 * TOKEN_BYTES, TOKEN_BYTES):
        for block_tokens in (1, 2, 16):
            with pytest.raises(CapacityError) as refused:
                plan(settings(memory_bytes=stated, block_tokens=block_tokens))
            shorter = advised(refused.value, "--max-model-len")
            if shorter is not None:
                plan(
                    settings(memory_bytes=stated, block_tokens=block_tokens, max_model_len=shorter)
                )


@pytest.mark.parametrize("stated", [None, 40 * 16 * TOKEN_BYTES])
def test_memory_too_small_for_the_pool_names_a_context_and_a_pool_that_start(
    stated: int | None,
) -> None:
    wanted = settings(memory_bytes=stated)
    available = fixed_bytes(wanted) + pool_bytes(4) + 7
    with pytest.raises(CapacityError) as refused:
        plan(wanted, available)
    shorter = advised(refused.value, "--max-model-len")
    pool = advised(refused.value, "--kv-memory")
    assert shorter == 4 * 16
    assert pool == 5 * 16 * TOKEN_BYTES
    assert plan(settings(max_model_len=shorter, memory_bytes=pool), available).pool_blocks == 4


def test_memory_too_small_for_the_weights_advises_no_pool_at_all() -> None:
    with pytest.raises(CapacityError) as refused:
        plan(settings(), 1 << 20)
    error = refused.value
    assert error.shortfall_bytes == fixed_bytes(settings()) + pool_bytes(32) - (1 << 20)
    assert advised(error, "--kv-memory") is None
    assert f"{error.shortfall_bytes:,} bytes more" in "".join(error.ways_out)


def test_a_context_beyond_the_models_is_refused_with_the_longest_allowed() -> None:
    with pytest.raises(ConfigurationError, match="--max-model-len 512 or less"):
        plan(settings(max_model_len=513))
    assert plan(settings(max_model_len=512)).max_model_len == 512


def test_the_plan_adds_up_to_what_it_was_given() -> None:
    made = plan(settings())
    assert made.weights_bytes == WEIGHTS
    assert made.block_bytes == 16 * TOKEN_BYTES
    assert made.activation_bytes == activations(settings())
