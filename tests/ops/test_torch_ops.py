"""The reference backend against formulas, and what a slice may not learn of its company.

Dimensions: T tokens, H query heads, K key-value heads, D head dim, X context of a slice.
"""

import math
import random
from collections.abc import Sequence
from typing import Final

import pytest
import torch

from netgain.ops.step_inputs import GroupInputs, StepInputs
from netgain.ops.torch_ops import TorchOps
from netgain.ops.weights import DenseWeight

HEADS, KV_HEADS, DIM, BLOCK, BLOCKS, LAYERS = 6, 2, 16, 8, 200, 2
FREQUENCIES: Final = torch.zeros(DIM // 2)  # no rotation
Slice = tuple[int, int]  # queries, context


def records(seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn((BLOCKS, LAYERS, 2, KV_HEADS, BLOCK, DIM), generator=generator)


def tables(slices: Sequence[Slice]) -> list[list[int]]:
    """The same blocks for the same place in the list, scrambled."""
    found, rng = [], random.Random(0)
    free = list(range(1, BLOCKS))
    rng.shuffle(free)
    for _, context in slices:
        needed = -(-context // BLOCK)
        found.append(free[:needed])
        del free[:needed]
    return found


def inputs(slices: Sequence[Slice], block_tables: Sequence[Sequence[int]]) -> StepInputs:
    starts = [0]
    positions: list[int] = []
    blocks: list[int] = []
    offsets: list[int] = []
    for (count, context), table in zip(slices, block_tables, strict=True):
        starts.append(starts[-1] + count)
        span = range(context - count, context)
        positions.extend(span)
        blocks.extend(table[p // BLOCK] for p in span)
        offsets.extend(p % BLOCK for p in span)
    widest = max(map(len, block_tables))
    padded = torch.tensor([[*table, *[0] * (widest - len(table))] for table in block_tables])
    group = GroupInputs(padded, torch.tensor(blocks), torch.tensor(offsets))
    tokens = torch.zeros(starts[-1], dtype=torch.int64)
    return StepInputs(
        token_ids_T=tokens,
        positions_T=torch.tensor(positions),
        query_starts=tuple(starts),
        context_lens=tuple(context for _, context in slices),
        groups=(group,),
        logit_rows_N=tokens[:0],
    )


def queries(slices: Sequence[Slice]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn((sum(count for count, _ in slices), HEADS, DIM), generator=generator)


def attend(
    slices: Sequence[Slice],
    block_tables: Sequence[Sequence[int]],
    q_THD: torch.Tensor,
    kv: torch.Tensor,
) -> torch.Tensor:
    plan = TorchOps().plan(inputs(slices, block_tables), [kv], FREQUENCIES)
    return plan.attention(0, 1, q_THD).view(q_THD.shape)


def by_the_formula(
    slices: Sequence[Slice],
    block_tables: Sequence[Sequence[int]],
    q_THD: torch.Tensor,
    kv: torch.Tensor,
) -> torch.Tensor:
    """softmax(q k / sqrt(D)) v, one query and head at a time, in float64."""
    rows = []
    at = 0
    for (count, context), table in zip(slices, block_tables, strict=True):
        layer = kv[list(table), 1].double().permute(1, 2, 0, 3, 4)
        keys_KXD, values_KXD = layer.reshape(2, KV_HEADS, -1, DIM).unbind(0)
        for i in range(count):
            seen = context - count + i + 1
            for h in range(HEADS):
                k = h // (HEADS // KV_HEADS)
                scores = keys_KXD[k, :seen] @ q_THD[at + i, h].double() / math.sqrt(DIM)
                rows.append(scores.softmax(0) @ values_KXD[k, :seen])
        at += count
    return torch.stack(rows).view(-1, HEADS, DIM)


@pytest.mark.parametrize(
    "slices",
    [
        [(1, 1)],
        [(1, 8), (1, 9), (1, 7)],
        [(1, 128), (1, 129), (1, 300)],
        [(5, 5)],
        [(5, 21), (8, 8)],
        [(1, 50), (7, 40), (1, 200), (16, 16), (2, 130)],
    ],
    ids=str,
)
def test_attention_is_the_formula(slices: list[Slice]) -> None:
    kv, where, q_THD = records(), tables(slices), queries(slices)
    found = attend(slices, where, q_THD, kv)
    assert torch.allclose(found.double(), by_the_formula(slices, where, q_THD, kv), atol=2e-6)


def test_attention_of_a_slice_is_bit_equal_alone_and_in_any_company() -> None:
    slices = [(1, 50), (7, 40), (1, 200), (1, 60), (16, 16), (2, 130), (1, 51), (1, 129)]
    kv, where, q_THD = records(), tables(slices), queries(slices)
    together = attend(slices, where, q_THD, kv)
    at = 0
    for piece, table in zip(slices, where, strict=True):
        rows = slice(at, at + piece[0])
        assert torch.equal(attend([piece], [table], q_THD[rows], kv), together[rows])
        at += piece[0]


def test_attention_reads_nothing_behind_the_context() -> None:
    slices = [(1, 13), (3, 21)]
    where, q_THD = tables(slices), queries(slices)
    clean, dirty = records(), records()
    dirty[0] = 1e6  # scratch
    for (_, context), table in zip(slices, where, strict=True):
        dirty[table[-1], :, :, :, context % BLOCK :] = -1e6
    assert torch.equal(attend(slices, where, q_THD, clean), attend(slices, where, q_THD, dirty))


def test_keys_and_values_land_in_their_slots_and_nowhere_else() -> None:
    slices = [(3, 9), (1, 4)]
    kv, where = records(), tables(slices)
    before = kv.clone()
    new_T2KD = torch.randn((4, 2, KV_HEADS, DIM), generator=torch.Generator().manual_seed(2))
    TorchOps().plan(inputs(slices, where), [kv], FREQUENCIES).write_kv(0, 1, new_T2KD)
    slots = [(where[0][0], 6), (where[0][0], 7), (where[0][1], 0), (where[1][0], 3)]
    for token, (block, offset) in enumerate(slots):
        assert torch.equal(kv[block, 1, :, :, offset], new_T2KD[token])
        before[block, 1, :, :, offset] = new_T2KD[token]
    assert torch.equal(kv, before)


def test_rope_turns_each_pair_by_position_times_frequency() -> None:
    frequencies = 1.0 / 10000.0 ** (torch.arange(DIM // 2) / (DIM // 2))
    slices = [(4, 30)]
    x_THD = queries(slices)
    low, high = x_THD.double().chunk(2, -1)
    angle = (torch.arange(26, 30).view(-1, 1, 1) * frequencies).double()
    expected = torch.cat(
        (low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()), -1
    )
    TorchOps().plan(inputs(slices, tables(slices)), [records()], frequencies).rope_(x_THD)
    assert torch.allclose(x_THD.double(), expected, atol=1e-5)


def test_rows_wise_operations_are_their_formulas() -> None:
    ops, generator = TorchOps(), torch.Generator().manual_seed(3)
    x, gain = torch.randn((5, 32), generator=generator), torch.randn(32, generator=generator)
    scale = (x.double().square().mean(-1, keepdim=True) + 0.1).rsqrt()
    assert torch.allclose(ops.rms_norm(x, gain, 0.1).double(), x * scale * gain, atol=1e-6)
    gate, up = x.chunk(2, -1)
    assert torch.allclose(ops.silu_mul(x), gate * torch.sigmoid(gate) * up, atol=1e-6)
    weight, bias = torch.randn((7, 32), generator=generator), torch.randn(7, generator=generator)
    dense = DenseWeight(weight, bias)
    assert torch.allclose(ops.linear(x, dense), x @ weight.T + bias, atol=1e-5)
    assert torch.equal(ops.embedding(torch.tensor([6, 0]), dense), weight[[6, 0]])
    assert dense.shape == (7, 32)
    assert dense.stored_bytes == (7 * 32 + 7) * 4


def test_a_weight_format_without_a_kernel_is_refused() -> None:
    class Ternary:
        shape = (1, 1)
        stored_bytes = 1

    with pytest.raises(TypeError, match="no kernel for Ternary"):
        TorchOps().linear(torch.zeros(1, 1), Ternary())
