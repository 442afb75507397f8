"""The number formats of checkpoints. Standard library only."""

import enum
from typing import Final


class StoredType(enum.IntEnum):
    """Number formats by their GGML type ids; quantised ones come in blocks along a row.

    Source: https://github.com/ggml-org/ggml/blob/master/include/ggml.h (`enum ggml_type`).
    """

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    IQ2_XXS = 16
    IQ2_XS = 17
    IQ3_XXS = 18
    IQ1_S = 19
    IQ4_NL = 20
    IQ3_S = 21
    IQ2_S = 22
    IQ4_XS = 23
    IQ1_M = 29
    BF16 = 30
    TQ1_0 = 34
    TQ2_0 = 35
    MXFP4 = 39

    @property
    def block_elements(self) -> int:
        """Numbers in one block; a row holds whole blocks."""
        return _BLOCKS[self][0]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return _BLOCKS[self][1]

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row. Raises `ValueError` if it does not divide into blocks."""
        blocks, rest = divmod(columns, self.block_elements)
        if rest:
            raise ValueError(f"{columns} columns do not divide into {self.name} blocks")
        return blocks * self.block_bytes


_BLOCKS: Final = {
    StoredType.F32: (1, 4),
    StoredType.F16: (1, 2),
    StoredType.Q4_0: (32, 18),
    StoredType.Q4_1: (32, 20),
    StoredType.Q5_0: (32, 22),
    StoredType.Q5_1: (32, 24),
    StoredType.Q8_0: (32, 34),
    StoredType.Q2_K: (256, 84),
    StoredType.Q3_K: (256, 110),
    StoredType.Q4_K: (256, 144),
    StoredType.Q5_K: (256, 176),
    StoredType.Q6_K: (256, 210),
    StoredType.IQ2_XXS: (256, 66),
    StoredType.IQ2_XS: (256, 74),
    StoredType.IQ3_XXS: (256, 98),
    StoredType.IQ1_S: (256, 50),
    StoredType.IQ4_NL: (32, 18),
    StoredType.IQ3_S: (256, 110),
    StoredType.IQ2_S: (256, 82),
    StoredType.IQ4_XS: (256, 136),
    StoredType.IQ1_M: (256, 56),
    StoredType.BF16: (1, 2),
    StoredType.TQ1_0: (256, 54),
    StoredType.TQ2_0: (256, 66),
    StoredType.MXFP4: (32, 17),
}
