"""Native attention against float64, and bit for bit against itself in other company.

Letters: T tokens of a step, H query heads, K KV heads, G = H / K, D head dim, S slots of a block.
"""

import dataclasses
import enum
import functools
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ops.native_build import INSTRUCTION_SETS, InstructionSet, Unit, built_unit
from tests.ops.native_formats import Layout, Narrowed, Rounding, nearest_bf16

Floats = npt.NDArray[np.float32]


# Attention under emulation takes a quarter of an hour: only when asked for (CONTRIBUTING.md).
TRIED: Final = [
    isa for isa in INSTRUCTION_SETS if isa.name != "neon" or os.environ.get("NETGAIN_EMULATE")
]


@pytest.fixture(scope="module", params=TRIED, ids=lambda isa: isa.name)
def isa(request: pytest.FixtureRequest) -> InstructionSet:
    chosen: InstructionSet = request.param
    return chosen


@pytest.fixture(scope="module")
def unit(isa: InstructionSet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unit]:
    with built_unit("attention_unit", isa, tmp_path_factory.mktemp("native")) as made:
        yield made


class Format(enum.IntEnum):
    """`KVFormat` of formats.h."""

    FP32 = 0
    BF16 = 1
    FP16 = 2
    INT8 = 3

    @property
    def element_bytes(self) -> int:
        return {Format.FP32: 4, Format.INT8: 1}.get(self, 2)


@dataclasses.dataclass(frozen=True)
class Shape:
    """`seed` draws the inputs, which do not depend on format, block size and window.

    `amplitude` is that of the values.
    """

    kv_heads: int = 2
    group: int = 3
    dim: int = 64
    block_tokens: int = 16
    format: Format = Format.FP16
    window: int = 0
    seed: int = 0
    amplitude: float = 1.0

    @property
    def heads(self) -> int:
        return self.kv_heads * self.group

    @property
    def head_bytes(self) -> int:
        scale = 4 if self.format is Format.INT8 else 0
        return self.block_tokens * (self.dim * self.format.element_bytes + scale)


def tiled(isa: InstructionSet, shape: Shape) -> bool:
    """Whether attention of this shape is computed as a matrix unit does, in bfloat16."""
    fits = shape.dim in (32, 64, 96, 128) and shape.format is not Format.FP32
    return isa.name == "amx" and fits


def bfloat16(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rounded to nearest, ties away from zero (which one in 256 numbers of few bits is)."""
    bits = (x.astype(np.float32).view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


@functools.cache
def drawn(heads: int, kv_heads: int, dim: int, length: int, request: int, seed: int) -> Floats:
    rng = np.random.default_rng((seed, request, heads, dim))
    return rng.standard_normal((length, heads + 2 * kv_heads, dim)).astype(np.float32)


def inputs(shape: Shape, length: int, request: int) -> Floats:
    """Queries, keys and values of a request's tokens before rotation: [T, (H + 2 K) D].

    Every other query head attends sharply, so that weights reach from 1 to nothing.
    """
    rows = drawn(shape.heads, shape.kv_heads, shape.dim, length, request, shape.seed).copy()
    rows[:, : shape.heads : 2] *= np.float32(4)
    rows[:, shape.heads + shape.kv_heads :] *= np.float32(shape.amplitude)
    return rows.reshape(length, -1)


def angles(positions: npt.NDArray[np.int32], dim: int) -> tuple[Floats, Floats]:
    at = positions[:, None] / 100.0 ** (np.arange(dim // 2) / (dim // 2))
    return np.cos(at).astype(np.float32), np.sin(at).astype(np.float32)


LAYERS, LAYER = 2, 1


class Cache:
    """Requests whose keys and values live in scattered blocks of one KV group."""

    def __init__(self, unit: Unit, shape: Shape, lengths: Sequence[int]) -> None:
        self.unit, self.shape, self.lengths = unit, shape, lengths
        self.done = [0] * len(lengths)
        needed = [-(-length // shape.block_tokens) for length in lengths]
        self.most = max(needed)
        ids = np.random.default_rng(shape.seed).permutation(sum(needed)).astype(np.int32)
        self.tables = np.zeros((len(lengths), self.most), np.int32)
        for request, count in enumerate(needed):
            self.tables[request, :count], ids = ids[:count], ids[count:]
        record = LAYERS * 2 * shape.kv_heads * shape.head_bytes
        # What no token has written yet must not matter: all bits set is not-a-number in every
        # float format.
        self.records = np.full((sum(needed), record), 255, np.uint8)

    def step(
        self,
        slices: Sequence[tuple[int, int]],
        *,
        threads: int = 1,
        batch: int = 1,
        backwards: bool = False,
    ) -> list[Floats]:
        """Runs (request, tokens) slices in one step: float32 results [tokens, H D] per slice."""
        return [rows for rows, _ in self._step(slices, threads, batch, backwards, rounding=None)]

    def quantized_step(
        self, slices: Sequence[tuple[int, int]], rounding: Rounding, *, threads: int = 1
    ) -> list[tuple[Floats, Floats]]:
        """The same with quantised results: dequantised rows, and scale * sum per block."""
        return self._step(slices, threads, 1, backwards=False, rounding=rounding)

    def _step(
        self,
        slices: Sequence[tuple[int, int]],
        threads: int,
        batch: int,
        backwards: bool,
        rounding: Rounding | None,
    ) -> list[tuple[Floats, Floats]]:
        shape = self.shape
        width = shape.heads * shape.dim
        counts = [count for _, count in slices]
        tokens = sum(counts)
        starts = np.cumsum([0, *counts]).astype(np.int32)
        firsts = [self.done[request] for request, _ in slices]
        ends = np.array([f + c for f, c in zip(firsts, counts, strict=True)], np.int32)
        positions = np.concatenate(
            [np.arange(f, e, dtype=np.int32) for f, e in zip(firsts, ends, strict=True)]
        )
        slice_of = np.repeat(np.arange(len(slices), dtype=np.int32), counts)
        tables = self.tables[[request for request, _ in slices]]
        qkv = np.concatenate(
            [
                inputs(shape, self.lengths[r], r)[f : f + c]
                for (r, c), f in zip(slices, firsts, strict=True)
            ]
        )
        cosines, sines = angles(positions, shape.dim)
        y = np.full((tokens, width), np.nan, np.float32)
        groups, blocks = -(-tokens // 16), width // 32
        values = np.zeros((groups, blocks, 16, 64), np.int8)
        scales, scaled_sums = (np.full((groups, blocks, 16), np.nan, np.float32) for _ in "ab")
        offsets = np.zeros((groups, blocks, 16), np.int32)
        merges = np.zeros(1, np.int64)
        sizes = [
            *(len(slices), self.most, shape.format, LAYERS, shape.kv_heads, shape.dim),
            *(shape.block_tokens, LAYER, shape.heads, shape.window),
            *(tokens, threads, batch, backwards, rounding.value if rounding else 0),
            self.unit.layout is Layout.BF16,
        ]
        self.unit.call(
            "run_step",
            *(np.array(sizes, np.int64), np.array([shape.dim**-0.5], np.float32)),
            *(starts, ends, tables, positions, slice_of, self.records, qkv, cosines, sines, y),
            *(values, scales, offsets, scaled_sums, merges),
        )
        self.merges = int(merges[0])
        for request, count in slices:
            self.done[request] += count
        if rounding and self.unit.layout is Layout.BF16:
            y = Narrowed(tokens, 0, values.view(np.uint16)).by_row()
        elif rounding:
            whole = self.unit.layout.read(values, rounding)
            assert (offsets == -8 * whole.sum(-1)).all()
            rows = (whole * scales[..., None]).transpose(0, 2, 1, 3)
            y = rows.reshape(groups * 16, width)[:tokens]
        block_sums = scaled_sums.transpose(0, 2, 1).reshape(groups * 16, blocks)
        return [(y[a:b], block_sums[a:b]) for a, b in itertools.pairwise(starts)]

    def stored(self, request: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Keys and values of a request as the records hold them: [tokens, K, D] each."""
        shape, size = self.shape, self.shape.block_tokens
        count = -(-self.done[request] // size)
        heads = self.records[self.tables[request, :count]].reshape(
            count, LAYERS, 2, shape.kv_heads, shape.head_bytes
        )[:, LAYER]
        at = size * shape.dim * shape.format.element_bytes
        elements = np.ascontiguousarray(heads[..., :at])
        if shape.format is Format.BF16:
            wide = elements.view(np.uint16).astype(np.uint32) << 16
            plain = wide.view(np.float32).astype(np.float64)
        else:
            kinds = {Format.FP32: np.float32, Format.FP16: np.float16, Format.INT8: np.int8}
            plain = elements.view(kinds[shape.format]).astype(np.float64)
        keys = plain[:, 0].reshape(count, shape.kv_heads, shape.dim, size).transpose(0, 3, 1, 2)
        values = plain[:, 1].reshape(count, shape.kv_heads, size, shape.dim).transpose(0, 2, 1, 3)
        if shape.format is Format.INT8:
            scales = np.ascontiguousarray(heads[..., at:]).view(np.float32).astype(np.float64)
            keys = keys * scales[:, 0].transpose(0, 2, 1)[..., None]
            values = values * scales[:, 1].transpose(0, 2, 1)[..., None]
        flat = (count * size, shape.kv_heads, shape.dim)
        tokens = self.done[request]
        return keys.reshape(flat)[:tokens], values.reshape(flat)[:tokens]

    def rotated(self, request: int) -> npt.NDArray[np.float64]:
        """Queries, keys and values of all done tokens after rotation: [tokens, H + 2 K, D]."""
        shape = self.shape
        raw = inputs(shape, self.lengths[request], request)[: self.done[request]]
        heads = raw.reshape(len(raw), -1, shape.dim).astype(np.float64)
        cosines, sines = angles(np.arange(len(raw), dtype=np.int32), shape.dim)
        turned, half = shape.heads + shape.kv_heads, shape.dim // 2
        x, y = heads[:, :turned, :half].copy(), heads[:, :turned, half:].copy()
        heads[:, :turned, :half] = x * cosines[:, None] - y * sines[:, None]
        heads[:, :turned, half:] = y * cosines[:, None] + x * sines[:, None]
        return heads

    def expected(self, request: int, *, rounded: bool = False) -> npt.NDArray[np.float64]:
        """Attention of every done token in float64 over the stored keys and values; `rounded`: of
        queries, keys and values in bfloat16.
        """
        shape = self.shape
        keys, values = self.stored(request)
        queries = self.rotated(request)[:, : shape.heads]
        if rounded:
            unit = np.log2(np.e) * shape.dim**-0.5
            queries = bfloat16(queries * unit) / unit
            if shape.format is not Format.INT8:  # whole numbers up to 127 are exact
                keys, values = bfloat16(keys), bfloat16(values)
        positions = np.arange(len(queries))
        seen = positions[None, :] <= positions[:, None]
        if shape.window:
            seen &= positions[None, :] > positions[:, None] - shape.window
        out = np.empty((len(queries), shape.heads, shape.dim))
        for head in range(shape.heads):
            scores = queries[:, head] @ keys[:, head // shape.group].T * shape.dim**-0.5
            scores = np.where(seen, scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = weights @ values[:, head // shape.group] / weights.sum(-1, keepdims=True)
        return out.reshape(len(queries), -1)


def close(isa: InstructionSet, found: Floats, cache: Cache, request: int, first: int = 0) -> None:
    """`found`: results of a request's done tokens from `first` on."""
    tiles = tiled(isa, cache.shape)
    wanted = cache.expected(request, rounded=tiles)[first:]
    # Weights in bfloat16 are off by up to 1 in 512, and with them, for whole numbers, the scales.
    tolerance = 2e-5 if not tiles else 1e-2 if cache.shape.format is Format.INT8 else 4e-3
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


shapes = st.builds(
    Shape,
    kv_heads=st.sampled_from([1, 2, 3]),
    group=st.sampled_from([1, 2, 3, 4, 5, 7, 8]),
    dim=st.sampled_from([2, 6, 16, 32, 40, 64, 80, 96, 128]),
    block_tokens=st.sampled_from([1, 3, 7, 16, 32, 48, 100, 256, 1024]),
    format=st.sampled_from(Format),
    window=st.sampled_from([0, 0, 1, 5, 100, 256, 300]),
    seed=st.integers(0, 3),
)
ragged = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)


@ragged
@given(shape=shapes, chunks=st.lists(st.integers(1, 150), min_size=1, max_size=5))
def test_ragged_steps_agree_with_float64(
    isa: InstructionSet, unit: Unit, shape: Shape, chunks: list[int]
) -> None:
    lengths = [sum(chunks), 3 * len(chunks)]
    cache = Cache(unit, shape, lengths)
    steps = [cache.step([(1, 3), (0, chunk)], threads=2) for chunk in chunks]
    for request in range(2):
        close(isa, np.concatenate([step[1 - request] for step in steps]), cache, request)


@pytest.mark.parametrize("window", [0, 300])
@pytest.mark.parametrize("kind", Format)
def test_decoding_over_many_splits_agrees_with_float64(
    isa: InstructionSet, unit: Unit, kind: Format, window: int
) -> None:
    cache = Cache(unit, Shape(format=kind, window=window), [1100])
    cache.step([(0, 1090)])
    found = [cache.step([(0, 1)], threads=4)[0] for _ in range(10)]
    assert cache.merges > 0
    close(isa, np.concatenate(found), cache, 0, 1090)


@ragged
@given(data=st.data(), shape=shapes)
def test_a_tokens_bits_do_not_depend_on_how_its_request_was_cut_or_batched(
    unit: Unit, data: st.DataObject, shape: Shape
) -> None:
    length = data.draw(st.sampled_from([5, 40, 255, 257, 520, 700]), "length")
    whole = Cache(unit, shape, [length])
    wanted = whole.step([(0, length)])[0]

    other_size = data.draw(st.sampled_from([1, 16, 32, 33, 1024]), "other block size")
    other = dataclasses.replace(shape, block_tokens=other_size)
    cache = Cache(unit, other, [length, 2000])
    found: list[Floats] = []
    while cache.done[0] < length:
        left = length - cache.done[0]
        count = min(left, data.draw(st.sampled_from([1, 1, 2, 3, 9, 64, 200]), "tokens"))
        company = data.draw(st.sampled_from([0, 0, 1, 20]), "company")
        slices = [(0, count), (1, company)] if company else [(0, count)]
        rows = cache.step(
            slices,
            threads=data.draw(st.sampled_from([1, 2, 8]), "threads"),
            batch=data.draw(st.sampled_from([1, 3, 100]), "tasks per call"),
            backwards=data.draw(st.booleans(), "backwards"),
        )
        found.append(rows[0])
        if cache.done[1] > 1900:
            cache.done[1] = 0
    assert np.concatenate(found).tobytes() == wanted.tobytes()


@pytest.mark.parametrize("window", [0, 257])
@pytest.mark.parametrize("kind", Format)
def test_decode_rows_and_chunk_rows_have_the_same_bits_over_many_splits(
    unit: Unit, kind: Format, window: int
) -> None:
    shape = Shape(format=kind, window=window)
    chunk = Cache(unit, shape, [1200])
    wanted = np.concatenate([chunk.step([(0, 1100)])[0], chunk.step([(0, 100)])[0]])
    rows, pieces = shape, dataclasses.replace(shape, block_tokens=24)
    for shape, counts, threads in ((rows, (1, 9), (1, 2, 3, 4, 5)), (pieces, (5,), (8,))):
        cache, cycle = Cache(unit, shape, [1200]), itertools.cycle(threads)
        cache.step([(0, 1100)])
        merges = 0
        for count in itertools.cycle(counts):
            position = cache.done[0]
            if position == 1200:
                break
            found = cache.step([(0, count)], threads=next(cycle))[0]
            assert found.tobytes() == wanted[position : position + count].tobytes()
            merges += cache.merges
        assert merges  # some rows' contexts were cut into several tasks


@pytest.mark.parametrize("kind", Format)
def test_records_hold_rotated_keys_and_values(unit: Unit, kind: Format) -> None:
    cache = Cache(unit, Shape(format=kind, dim=36, block_tokens=10), [57])
    cache.step([(0, 33)])
    cache.step([(0, 24)])
    keys, values = cache.stored(0)
    rotated = cache.rotated(0)
    heads, kv_heads = cache.shape.heads, cache.shape.kv_heads
    largest = np.abs(rotated).max(-1)[:, heads:, None]
    tolerance = {Format.FP32: 1e-6, Format.BF16: 2**-8, Format.FP16: 2**-11, Format.INT8: 0.5 / 127}
    for found, at in ((keys, 0), (values, kv_heads)):
        wanted = rotated[:, heads + at : heads + at + kv_heads]
        error = np.abs(found - wanted)
        scale = largest[:, at : at + kv_heads] if kind is Format.INT8 else np.abs(wanted)
        assert (error <= tolerance[kind] * 1.001 * scale + 1e-6).all()


def test_values_beyond_float16_are_stored_as_its_largest(isa: InstructionSet, unit: Unit) -> None:
    cache = Cache(unit, Shape(amplitude=1e7), [1])
    found = np.abs(cache.step([(0, 1)])[0])
    assert found.max() == (65536 if tiled(isa, cache.shape) else 65504)  # in bfloat16
    assert (found > 0).all()


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("rounding", Rounding, ids=lambda rounding: rounding.name)
def test_quantised_results_are_the_float_results_rounded_or_in_bfloat16(
    unit: Unit, threads: int, rounding: Rounding
) -> None:
    plain, quantized = (Cache(unit, Shape(), [700]) for _ in range(2))
    for count in (600, 1, 1, 7):
        wanted = plain.step([(0, count)], threads=threads)[0]
        found, scaled_sums = quantized.quantized_step([(0, count)], rounding, threads=threads)[0]
        pairs = wanted.reshape(count, -1, 64)
        scales = np.abs(pairs).max(-1, keepdims=True) / rounding.largest
        if unit.layout is Layout.BF16:
            np.testing.assert_array_equal(found, nearest_bf16(wanted))
            continue
        error = np.abs(found.reshape(pairs.shape) - pairs)
        assert (error <= rounding.most_off * scales).all()
        sums = found.reshape(count, -1, 32).sum(-1)
        np.testing.assert_allclose(scaled_sums, sums, rtol=1e-4, atol=1e-4)


def test_a_long_decode_is_divided_evenly_and_a_single_thread_merges_nothing(
    unit: Unit,
) -> None:
    cache = Cache(unit, Shape(), [2100])
    cache.step([(0, 2000)])
    cache.step([(0, 1)], threads=1)
    assert cache.merges == 0
    cache.step([(0, 1)], threads=2)
    assert cache.merges == cache.shape.kv_heads


@pytest.mark.parametrize(
    ("contexts", "window", "by_head"),
    [
        ([64] * 16, 0, True),
        ([1500, *[20] * 15], 0, True),
        ([1000] * 16, 0, False),
        ([1000] * 16, 100, True),  # what is read counts, not what there is
        ([64] * 17, 0, False),  # more than share a cache line
        ([8000, *[20] * 15], 0, False),
        ([300], 0, False),
        ([1, 700, 5000, 40, 90], 0, False),
    ],
)
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("share_lines", [True, False])
def test_a_steps_tasks_are_divided_into_chunks_of_even_length(
    unit: Unit, contexts: list[int], window: int, by_head: bool, threads: int, share_lines: bool
) -> None:
    kv_heads, group, most = 3, 3, 4096
    tasks, firsts = np.zeros((most, 3), np.int64), np.zeros(most + 1, np.int64)
    counts = np.zeros(3, np.int64)
    unit.call(
        "divide_step",
        np.array(
            [len(contexts), kv_heads, kv_heads * group, 64, window, threads, share_lines], np.int64
        ),
        np.arange(len(contexts) + 1, dtype=np.int32),
        np.array(contexts, np.int32),
        *(tasks, firsts, counts),
    )
    tasks, firsts = tasks[: counts[0]], firsts[: counts[1] + 1]
    slices, heads, lengths = tasks.T
    read = np.minimum(contexts, window or max(contexts))
    # Every token that is read once for each head.
    for slice_, tokens in enumerate(read):
        for head in range(kv_heads):
            assert lengths[(slices == slice_) & (heads == head)].sum() == tokens
    assert firsts[0] == 0
    assert firsts[-1] == len(tasks)
    assert (np.diff(firsts) > 0).all()
    # Threads take chunks in turn: none may be the last to be waited for by much.
    share = read.sum() * kv_heads / (4 * threads)
    of_chunks = np.add.reduceat(lengths, firsts[:-1])
    longest = np.maximum.reduceat(lengths, firsts[:-1])
    assert (of_chunks <= np.maximum(longest, share) + longest / 2).all()
    assert counts[2] == (by_head and share_lines)
    ordered = heads if counts[2] else -lengths
    assert (np.diff(ordered) >= 0).all()
