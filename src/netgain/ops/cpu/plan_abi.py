"""The plan's C structures and functions, field by field as in `native/plan.h` and `api.cpp`."""

import ctypes
import enum
from typing import Final

from netgain.ops.cpu.library import Library

_F32 = ctypes.c_float
_I32 = ctypes.c_int32
_I64 = ctypes.c_int64
_POINTER = ctypes.c_void_p

BAD_TOKEN: Final = -2
"""What `ng_plan_run` returns for a token id outside the vocabulary."""


class OpKind(enum.IntEnum):
    """Kinds of recorded operations."""

    EMBED = 0
    NORM = 1
    QUANTIZE = 2
    LINEAR = 3
    GATED = 4
    ATTENTION = 5
    LOGIT_ROWS = 6


class Op(ctypes.Structure):
    """`NgOp`."""

    _fields_ = (
        ("kind", _I32),
        ("input", _I32),
        ("output", _I32),
        ("residual", _I32),
        ("weight_format", _I32),
        ("activation", _I32),
        ("rows", _I64),
        ("columns", _I64),
        ("data", _POINTER),
        ("bias", _POINTER),
        ("gain", _POINTER),
        ("eps", _F32),
        ("group", _I32),
        ("layer", _I64),
        ("heads", _I64),
        ("window", _I64),
    )


class Group(ctypes.Structure):
    """`NgGroup`."""

    _fields_ = (
        ("format", _I32),
        ("layers", _I64),
        ("kv_heads", _I64),
        ("head_dim", _I64),
        ("block_tokens", _I64),
        ("records", _POINTER),
    )


class Shaping(ctypes.Structure):
    """`NgShaping`."""

    _fields_ = (
        ("bias_ids", _POINTER),
        ("bias", _POINTER),
        ("banned_ids", _POINTER),
        ("seen_ids", _POINTER),
        ("seen_counts", _POINTER),
        ("biases", _I64),
        ("banned", _I64),
        ("seen", _I64),
        ("repetition", _F32),
        ("frequency", _F32),
        ("presence", _F32),
    )


class Step(ctypes.Structure):
    """`NgStep`."""

    _fields_ = (
        ("tokens", _I64),
        ("slices", _I64),
        ("logit_rows", _I64),
        ("token_ids", _POINTER),
        ("positions", _POINTER),
        ("query_starts", _POINTER),
        ("context_lens", _POINTER),
        ("logit_row_ids", _POINTER),
        ("tables", _POINTER),
        ("table_strides", _POINTER),
        ("logits", _POINTER),
        ("temperatures", _POINTER),
        ("top_k", _POINTER),
        ("top_p", _POINTER),
        ("seeds", _POINTER),
        ("draw_positions", _POINTER),
        ("drawn", _POINTER),
        ("drawn_rows", _I64),
        ("head_rows", _I64),
        ("min_p", _POINTER),
        ("shapings", _POINTER),
        ("shaping_of", _POINTER),
        ("tops", _POINTER),
        ("top_stride", _I64),
        ("logprobs", _POINTER),
        ("ranks", _POINTER),
        ("top_ids", _POINTER),
        ("top_logprobs", _POINTER),
        ("hidden", _POINTER),
    )


def declare(library: Library) -> ctypes.CDLL:
    """The library with the argument types of the functions used here."""
    handle = library.handle
    handle.ng_pool_create.restype = _POINTER
    handle.ng_pool_create.argtypes = (ctypes.c_int, _POINTER, ctypes.c_int)
    handle.ng_pool_destroy.restype = None
    handle.ng_pool_destroy.argtypes = (_POINTER,)
    handle.ng_plan_create.restype = _POINTER
    handle.ng_plan_create.argtypes = (_POINTER, _I64, _I64, _POINTER, _I64)
    handle.ng_plan_destroy.restype = None
    handle.ng_plan_destroy.argtypes = (_POINTER,)
    handle.ng_plan_group.argtypes = (_POINTER, ctypes.POINTER(Group))
    handle.ng_plan_value.argtypes = (_POINTER, _I64, _I64, ctypes.c_int, ctypes.c_int)
    handle.ng_plan_op.argtypes = (_POINTER, ctypes.POINTER(Op))
    handle.ng_plan_finish.argtypes = (_POINTER, ctypes.c_int)
    handle.ng_plan_run.argtypes = (_POINTER, ctypes.POINTER(Step))
    handle.ng_plan_time.restype = None
    handle.ng_plan_time.argtypes = (_POINTER, ctypes.c_int)
    handle.ng_plan_timings.argtypes = (
        _POINTER,
        _POINTER,
        _POINTER,
        ctypes.c_int,
        ctypes.c_int,
    )
    return handle
