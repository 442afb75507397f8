"""The reference backend: plain torch, float32, any CPU.

Dimensions: T tokens of the step, R slices of a bucket, N rows, E hidden, I/O features in/out,
V vocabulary, F feed-forward, H query heads, K key-value heads, G query heads per KV head,
D head dim, B blocks, L layers of a KV group, S slots of a block, C context padded to whole
buckets, Q rows of a chunk, X its context, 2 = key, value (or gate, up).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

import torch
from torch.nn import functional

from netgain.ops.step_inputs import GroupInputs, StepInputs
from netgain.ops.weights import DenseWeight, LinearWeight

# Decode slices whose contexts round up to the same multiple share one attention call. The padding
# of a slice follows from its own context alone, so that its result does not depend on step-mates.
_BUCKET_TOKENS: Final = 128


class TorchOps:
    """Implements `Ops` with library calls; a row's GEMM may depend on the number of rows."""

    def plan(
        self,
        inputs: StepInputs,
        records_BL2KSD: Sequence[torch.Tensor],
        inverse_frequencies: torch.Tensor,
    ) -> "TorchStepPlan":
        """See `Ops.plan`."""
        return TorchStepPlan(inputs, records_BL2KSD, inverse_frequencies)

    def embedding(self, token_ids_T: torch.Tensor, table: LinearWeight) -> torch.Tensor:
        """See `Ops.embedding`."""
        return _dense(table).weight_OI.index_select(0, token_ids_T)

    def rms_norm(self, x_NE: torch.Tensor, gain_E: torch.Tensor, eps: float) -> torch.Tensor:
        """See `Ops.rms_norm`."""
        # One pass for the sum of squares, one call for `norm ** 2 / E + eps`: half the time of
        # `mean` at one row as at five hundred.
        norm_N1 = torch.linalg.vector_norm(x_NE, dim=-1, keepdim=True)
        scale_N1 = torch.addcmul(_scalar(eps), norm_N1, norm_N1, value=1 / x_NE.shape[-1]).rsqrt_()
        return (x_NE * scale_N1).mul_(gain_E)

    def linear(self, x_NI: torch.Tensor, weight: LinearWeight) -> torch.Tensor:
        """See `Ops.linear`."""
        dense = _dense(weight)
        return functional.linear(x_NI, dense.weight_OI, dense.bias_O)

    def silu_mul(self, gate_up_NF: torch.Tensor) -> torch.Tensor:
        """See `Ops.silu_mul`."""
        gate_NF, up_NF = gate_up_NF.chunk(2, -1)
        return functional.silu(gate_NF).mul_(up_NF)


@cache
def _scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float32)


def _dense(weight: LinearWeight) -> DenseWeight:
    if not isinstance(weight, DenseWeight):
        raise TypeError(f"TorchOps has no kernel for {type(weight).__name__}")
    return weight


@dataclass(frozen=True, slots=True)
class _DecodeBucket:
    """Slices of one query whose contexts pad to the same length C.

    `rows_R` is None where the bucket is the whole step in order. `bias_R11C` is 0 inside a
    slice's context and -inf behind it.
    """

    rows_R: torch.Tensor | None
    blocks: torch.Tensor
    count: int
    bias_R11C: torch.Tensor


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One slice of several queries. Without `bias_QX` it starts at position 0."""

    first_row: int
    end_row: int
    context: int
    blocks: torch.Tensor
    bias_QX: torch.Tensor | None


class TorchStepPlan:
    """Implements `StepPlan`: indices, masks and views that all layers share."""

    def __init__(
        self,
        inputs: StepInputs,
        records_BL2KSD: Sequence[torch.Tensor],
        inverse_frequencies: torch.Tensor,
    ) -> None:
        angles = inputs.positions_T.to(torch.float32).unsqueeze(1) * inverse_frequencies
        cos, sin = angles.cos(), angles.sin()
        self._cos_T1D = torch.cat((cos, cos), -1).unsqueeze(1)
        self._sin_T1D = torch.cat((-sin, sin), -1).unsqueeze(1)
        self._groups = tuple(
            _GroupPlan(inputs, group, records)
            for group, records in zip(inputs.groups, records_BL2KSD, strict=True)
        )

    def rope_(self, x_THD: torch.Tensor) -> None:
        """See `StepPlan.rope_`."""
        low, high = x_THD.chunk(2, -1)
        swapped = torch.cat((high, low), -1).mul_(self._sin_T1D)
        x_THD.mul_(self._cos_T1D).add_(swapped)

    def write_kv(self, group: int, layer: int, kv_T2KD: torch.Tensor) -> None:
        """See `StepPlan.write_kv`."""
        self._groups[group].write(layer, kv_T2KD)

    def attention(self, group: int, layer: int, q_THD: torch.Tensor) -> torch.Tensor:
        """See `StepPlan.attention`."""
        return self._groups[group].attention(layer, q_THD)


class _GroupPlan:
    """One KV group of a step."""

    def __init__(
        self, inputs: StepInputs, group: GroupInputs, records_BL2KSD: torch.Tensor
    ) -> None:
        self._slots = (group.slot_blocks_T, group.slot_offsets_T)
        self._writable = records_BL2KSD.permute(1, 0, 4, 2, 3, 5).unbind(0)  # BS2KD
        self._readable = records_BL2KSD.permute(1, 2, 3, 0, 4, 5).unbind(0)  # 2KBSD
        block_tokens = records_BL2KSD.shape[4]
        starts = inputs.query_starts
        counts = [end - start for start, end in pairwise(starts)]
        self._decodes = _decode_buckets(inputs, group, counts, block_tokens)
        self._chunks = [
            _chunk(starts[r], count, inputs.context_lens[r], group.block_tables_RM[r], block_tokens)
            for r, count in enumerate(counts)
            if count > 1
        ]

    def write(self, layer: int, kv_T2KD: torch.Tensor) -> None:
        self._writable[layer].index_put_(self._slots, kv_T2KD)

    def attention(self, layer: int, q_THD: torch.Tensor) -> torch.Tensor:
        cache_2KBSD = self._readable[layer]
        if not self._chunks and len(self._decodes) == 1 and self._decodes[0].rows_R is None:
            return _decode(self._decodes[0], q_THD, cache_2KBSD).view(q_THD.shape[0], -1)
        out_THD = torch.empty_like(q_THD, memory_format=torch.contiguous_format)
        for bucket in self._decodes:
            assert bucket.rows_R is not None
            q_RHD = q_THD.index_select(0, bucket.rows_R)
            attended = _decode(bucket, q_RHD, cache_2KBSD)
            out_THD.index_copy_(0, bucket.rows_R, attended.view(q_RHD.shape))
        for chunk in self._chunks:
            rows = slice(chunk.first_row, chunk.end_row)
            out_THD[rows] = _attend_chunk(chunk, q_THD[rows], cache_2KBSD)
        return out_THD.view(q_THD.shape[0], -1)


def _decode_buckets(
    inputs: StepInputs, group: GroupInputs, counts: Sequence[int], block_tokens: int
) -> list[_DecodeBucket]:
    step = max(1, _BUCKET_TOKENS // block_tokens)
    members: dict[int, list[int]] = {}
    for r, count in enumerate(counts):
        if count == 1:
            blocks = -(-inputs.context_lens[r] // block_tokens)
            members.setdefault(-(-blocks // step) * step, []).append(r)
    return [
        _decode_bucket(inputs, group, slices, blocks, block_tokens)
        for blocks, slices in members.items()
    ]


def _decode_bucket(
    inputs: StepInputs, group: GroupInputs, slices: list[int], blocks: int, block_tokens: int
) -> _DecodeBucket:
    whole_step = len(slices) == len(inputs.query_starts) - 1
    tables_RM = group.block_tables_RM
    if not whole_step:
        tables_RM = tables_RM.index_select(0, torch.tensor(slices))
    missing = blocks - tables_RM.shape[1]
    tables_RM = functional.pad(tables_RM, (0, missing))  # block 0 is scratch; trims if negative
    contexts_R1 = torch.tensor([[inputs.context_lens[r]] for r in slices])
    outside_RC = torch.arange(blocks * block_tokens) >= contexts_R1
    bias_RC = torch.zeros(outside_RC.shape).masked_fill_(outside_RC, -torch.inf)
    rows_R = None if whole_step else torch.tensor([inputs.query_starts[r] for r in slices])
    return _DecodeBucket(
        rows_R, tables_RM.reshape(-1), len(slices), bias_RC.unsqueeze(1).unsqueeze(1)
    )


def _decode(bucket: _DecodeBucket, q_RHD: torch.Tensor, cache_2KBSD: torch.Tensor) -> torch.Tensor:
    """Returns `[R, K, G, D]`: the G heads of a KV head take the place of queries."""
    kv_heads, dim = cache_2KBSD.shape[1], cache_2KBSD.shape[4]
    # Selecting through the permuted view gathers and transposes in one copy.
    gathered = cache_2KBSD.index_select(2, bucket.blocks)
    k_RKCD, v_RKCD = gathered.view(2, kv_heads, bucket.count, -1, dim).transpose(1, 2).unbind(0)
    q_RKGD = q_RHD.reshape(bucket.count, kv_heads, -1, dim)
    return functional.scaled_dot_product_attention(
        q_RKGD, k_RKCD, v_RKCD, attn_mask=bucket.bias_R11C
    )


def _chunk(
    first_row: int, count: int, context: int, table_M: torch.Tensor, block_tokens: int
) -> _Chunk:
    blocks = table_M[: -(-context // block_tokens)]
    start = context - count
    bias = None
    if start:
        # Query i stands at position start + i and sees that position and all before it.
        bias = torch.full((count, context), -torch.inf).triu_(start + 1)
    return _Chunk(first_row, first_row + count, context, blocks, bias)


def _attend_chunk(chunk: _Chunk, q_QHD: torch.Tensor, cache_2KBSD: torch.Tensor) -> torch.Tensor:
    """Returns `[Q, H, D]`."""
    kv_heads, dim = cache_2KBSD.shape[1], cache_2KBSD.shape[4]
    gathered = cache_2KBSD.index_select(2, chunk.blocks).view(2, 1, kv_heads, -1, dim)
    k_1KXD, v_1KXD = gathered[:, :, :, : chunk.context].unbind(0)
    attended_1HQD = functional.scaled_dot_product_attention(
        q_QHD.transpose(0, 1).unsqueeze(0),
        k_1KXD,
        v_1KXD,
        attn_mask=chunk.bias_QX,
        is_causal=chunk.bias_QX is None,
        enable_gqa=True,
    )
    return attended_1HQD.squeeze(0).transpose(0, 1)
