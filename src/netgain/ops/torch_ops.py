"""A model's operations in plain torch, float32.

Dimensions: T tokens of the step, R slices of a bucket, N rows, E hidden, I/O features in/out,
V vocabulary, F feed-forward, H query heads, K key-value heads, G query heads per KV head,
D head dim, J = H + 2 K, B blocks, L layers of a KV group, S slots of a block, C context padded to
whole buckets, Q rows of a chunk, X its context, 2 = key, value (or gate, up).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from netgain.ops.interface import Activation, AttentionSpec
from netgain.ops.step_inputs import StepInputs
from netgain.ops.torch_weights import DenseWeight
from netgain.ops.weights import LinearWeight

# Decode slices whose contexts round up to the same multiple share one attention call. The padding
# of a slice follows from its own context alone, so that its result does not depend on step-mates.
_BUCKET_TOKENS: Final = 128


class TorchStepOps:
    """Implements `StepOps` with library calls; a row's GEMM may depend on the number of rows.

    Every record must hold finite numbers from the start (zeros do): padded slots are read with
    weight 0.
    """

    def __init__(
        self,
        inputs: StepInputs,
        records_BL2KSD: Sequence[torch.Tensor],
        inverse_frequencies: torch.Tensor,
    ) -> None:
        self._token_ids_T = torch.from_numpy(inputs.token_ids_T)
        self._logit_rows_N = torch.from_numpy(inputs.logit_rows_N)
        self._inputs = inputs
        self._records_BL2KSD = records_BL2KSD
        positions_T = torch.from_numpy(inputs.positions_T)
        angles = positions_T.to(torch.float32).unsqueeze(1) * inverse_frequencies
        cos, sin = angles.cos(), angles.sin()
        self._cos_T1D = torch.cat((cos, cos), -1).unsqueeze(1)
        self._sin_T1D = torch.cat((-sin, sin), -1).unsqueeze(1)
        self._groups: dict[tuple[int, int | None], _GroupPlan] = {}
        self._head: LinearWeight | None = None

    def embedding(self, table: LinearWeight) -> torch.Tensor:
        """See `StepOps.embedding`."""
        return _dense(table).weight_OI.index_select(0, self._token_ids_T)

    def rms_norm(self, x_NE: torch.Tensor, gain_E: NDArray[np.float32], eps: float) -> torch.Tensor:
        """See `StepOps.rms_norm`."""
        # One pass for the sum of squares, one call for `norm ** 2 / E + eps`: half the time of
        # `mean` at one row as at five hundred.
        norm_N1 = torch.linalg.vector_norm(x_NE, dim=-1, keepdim=True)
        scale_N1 = torch.addcmul(_scalar(eps), norm_N1, norm_N1, value=1 / x_NE.shape[-1]).rsqrt_()
        return (x_NE * scale_N1).mul_(torch.from_numpy(gain_E))

    def linear(
        self, x_NI: torch.Tensor, weight: LinearWeight, residual_NO: torch.Tensor | None = None
    ) -> torch.Tensor:
        """See `StepOps.linear`."""
        dense = _dense(weight)
        result_NO = functional.linear(x_NI, dense.weight_OI, dense.bias_O)
        return result_NO if residual_NO is None else residual_NO.add_(result_NO)

    def gated(
        self, x_NI: torch.Tensor, gate_up: LinearWeight, activation: Activation
    ) -> torch.Tensor:
        """See `StepOps.gated`."""
        gate_NF, up_NF = self.linear(x_NI, gate_up).chunk(2, -1)
        match activation:
            case Activation.SILU:
                return functional.silu(gate_NF).mul_(up_NF)
            case Activation.GELU_TANH:
                return functional.gelu(gate_NF, approximate="tanh").mul_(up_NF)

    def attention(self, qkv_TJ: torch.Tensor, spec: AttentionSpec) -> torch.Tensor:
        """See `StepOps.attention`."""
        heads, kv_heads = spec.heads, spec.kv_heads
        qkv_TJD = qkv_TJ.view(-1, heads + 2 * kv_heads, spec.head_dim)
        self._rotate_(qkv_TJD[:, : heads + kv_heads])
        group = self._group(spec.group, spec.window)
        group.write(spec.layer, qkv_TJD[:, heads:].view(-1, 2, kv_heads, spec.head_dim))
        return group.attention(spec.layer, qkv_TJD[:, :heads])

    def logit_rows(self, x_TE: torch.Tensor) -> torch.Tensor:
        """See `StepOps.logit_rows`."""
        return x_TE.index_select(0, self._logit_rows_N)

    def head(self, x_NE: torch.Tensor, weight: LinearWeight) -> torch.Tensor:
        """See `StepOps.head`: put off, until `logits` is called with what this returns."""
        self._head = weight
        return x_NE

    def logits(self, result_NE: torch.Tensor) -> torch.Tensor:
        """The logits of rows of a forward pass's result, which is them if it had no head."""
        return result_NE if self._head is None else self.linear(result_NE, self._head)

    def _rotate_(self, x_THD: torch.Tensor) -> None:
        low, high = x_THD.chunk(2, -1)
        swapped = torch.cat((high, low), -1).mul_(self._sin_T1D)
        x_THD.mul_(self._cos_T1D).add_(swapped)

    def _group(self, index: int, window: int | None) -> "_GroupPlan":
        """Indices, masks and views that all layers of a kind share, made for the first of them."""
        found = self._groups.get((index, window))
        if found is None:
            found = _GroupPlan(self._inputs, index, self._records_BL2KSD[index], window)
            self._groups[index, window] = found
        return found


@cache
def _scalar(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float32)


def _dense(weight: LinearWeight) -> DenseWeight:
    if not isinstance(weight, DenseWeight):
        raise TypeError(f"the torch backend has no kernel for {type(weight).__name__}")
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


class _GroupPlan:
    """One KV group of a step, under one window."""

    def __init__(
        self, inputs: StepInputs, group: int, records_BL2KSD: torch.Tensor, window: int | None
    ) -> None:
        self._writable = records_BL2KSD.permute(1, 0, 4, 2, 3, 5).unbind(0)  # BS2KD
        self._readable = records_BL2KSD.permute(1, 2, 3, 0, 4, 5).unbind(0)  # 2KBSD
        block_tokens = records_BL2KSD.shape[4]
        tables_RM = inputs.groups[group].block_tables_RM.astype(np.int64)
        starts = inputs.query_starts.tolist()
        contexts = inputs.context_lens_R.tolist()
        counts = [end - start for start, end in pairwise(starts)]
        owners_T = np.repeat(np.arange(len(counts)), counts)
        table_columns_T, offsets_T = np.divmod(inputs.positions_T, block_tokens)
        self._slots = (
            torch.from_numpy(tables_RM[owners_T, table_columns_T]),
            torch.from_numpy(offsets_T.astype(np.int64)),
        )
        tables = torch.from_numpy(tables_RM)
        self._decodes = _decode_buckets(starts, counts, contexts, tables, block_tokens, window)
        self._chunks = [
            _chunk(starts[r], count, contexts[r], tables[r], block_tokens, window)
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
    starts: Sequence[int],
    counts: Sequence[int],
    contexts: Sequence[int],
    tables_RM: torch.Tensor,
    block_tokens: int,
    window: int | None,
) -> list[_DecodeBucket]:
    step = max(1, _BUCKET_TOKENS // block_tokens)
    members: dict[int, list[int]] = {}
    for r, count in enumerate(counts):
        if count == 1:
            blocks = -(-contexts[r] // block_tokens)
            members.setdefault(-(-blocks // step) * step, []).append(r)
    buckets = []
    for blocks, slices in members.items():
        whole_step = len(slices) == len(counts)
        rows_R = None if whole_step else torch.tensor([starts[r] for r in slices])
        chosen_RM = tables_RM if whole_step else tables_RM.index_select(0, torch.tensor(slices))
        # Block 0 is scratch; a negative number of missing blocks trims.
        chosen_RM = functional.pad(chosen_RM, (0, blocks - chosen_RM.shape[1]))
        bias_RC = _decode_bias([contexts[r] for r in slices], blocks * block_tokens, window)
        buckets.append(
            _DecodeBucket(
                rows_R, chosen_RM.reshape(-1), len(slices), bias_RC.unsqueeze(1).unsqueeze(1)
            )
        )
    return buckets


def _decode_bias(contexts: Sequence[int], padded: int, window: int | None) -> torch.Tensor:
    """0 where each slice's only query looks, -inf elsewhere: `[R, C]`."""
    places_C = torch.arange(padded)
    contexts_R1 = torch.tensor(contexts).unsqueeze(1)
    outside_RC = places_C >= contexts_R1
    if window is not None:
        outside_RC |= places_C < contexts_R1 - window
    return torch.zeros(outside_RC.shape).masked_fill_(outside_RC, -torch.inf)


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
    first_row: int,
    count: int,
    context: int,
    table_M: torch.Tensor,
    block_tokens: int,
    window: int | None,
) -> _Chunk:
    blocks = table_M[: -(-context // block_tokens)]
    start = context - count
    bias = None
    if start or window is not None:
        # Query i stands at position start + i and sees that position and all before it.
        bias = torch.full((count, context), -torch.inf).triu_(start + 1)
        if window is not None:
            bias += torch.full((count, context), -torch.inf).tril_(start - window)
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
