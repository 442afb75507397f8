"""What one block of KV cache holds, as plain numbers: shared by models, pool, tiers and simulator.

A block of a group is one contiguous record over all layers of the group, laid out
`[layer][k|v][kv head][token][dim]` unless its backend names another layout, so that moving a block
is one copy and heads are contiguous. Every layout takes the same number of bytes.
"""

import enum
from dataclasses import dataclass


class KVDType(enum.StrEnum):
    """Storage type of keys and values."""

    FP32 = "fp32"
    FP16 = "fp16"
    BF16 = "bf16"
    INT8 = "int8"
    """With one float32 scale per token, KV head and k|v, inside the record."""

    @property
    def element_bytes(self) -> int:
        """Bytes of one stored element."""
        return {KVDType.FP32: 4, KVDType.FP16: 2, KVDType.BF16: 2, KVDType.INT8: 1}[self]

    @property
    def scale_bytes(self) -> int:
        """Bytes of scales beside one token's elements of one KV head, key or value."""
        return 4 if self is KVDType.INT8 else 0


@dataclass(frozen=True, slots=True)
class KVGroup:
    """Layers that share geometry and retention, and therefore a block table.

    `layers` are the model's layer indices in record order.
    """

    name: str
    layers: tuple[int, ...]
    kv_heads: int
    head_dim: int
    block_tokens: int
    dtype: KVDType = KVDType.FP32

    @property
    def token_bytes(self) -> int:
        """Bytes one token takes: 2 x layers x KV heads x (head dim x element size + scale)."""
        head_bytes = self.head_dim * self.dtype.element_bytes + self.dtype.scale_bytes
        return 2 * len(self.layers) * self.kv_heads * head_bytes

    @property
    def record_bytes(self) -> int:
        """Bytes of one block's record."""
        return self.token_bytes * self.block_tokens

    @property
    def record_shape(self) -> tuple[int, int, int, int, int]:
        """`[layer, k|v, kv head, token, dim]` of one record's elements, scales apart."""
        return (len(self.layers), 2, self.kv_heads, self.block_tokens, self.head_dim)
