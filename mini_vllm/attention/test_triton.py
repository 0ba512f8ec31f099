"""The Triton kernels against float64: compiled where there is a GPU, else in Triton's interpreter,
with small shapes.

Every input lies between guard bands, NaN for numbers and the index of a block of NaN for tables,
and all memory that is allocated here is NaN before it is written: what is read out of range, or not
written, shows in the result, and what is written out of range shows in the bands.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

pytest.importorskip("triton", reason="Triton has Linux wheels only")

import triton
import triton.language as tl

from mini_vllm.attention import AttentionMetadata, PackedRequest, Rotation, apply_rotary, tiles
from mini_vllm.attention.numerics import matmul, round_to
from mini_vllm.attention.paged_attention import paged_attention
from mini_vllm.attention.test_attention import GPU, Batch, assert_close, dense_attention, make_batch
from mini_vllm.attention.triton_backend import TritonBackend, tile_shapes
from mini_vllm.attention.triton_simple import attend_rows, plan_rows
from mini_vllm.attention.write_kv import rotate_and_write_kv, write_kv
from mini_vllm.models.layers import fused, fused_triton

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
BAND = 1024  # elements on either side
EMPTY = torch.empty
ROUNDOFF = {dtype: torch.finfo(dtype).eps / 2 for dtype in DTYPES}


class Guards:
    """Puts tensors between bands of a filling, and looks at the bands afterwards."""

    def __init__(self) -> None:
        self._bands: list[tuple[Tensor, float]] = []

    def __call__(self, tensor: Tensor, filling: float = torch.nan) -> Tensor:
        buffer = torch.full(
            (tensor.numel() + 2 * BAND,), filling, dtype=tensor.dtype, device=tensor.device
        )
        self._bands += [(buffer[:BAND], filling), (buffer[-BAND:], filling)]
        middle = buffer[BAND:-BAND].view(tensor.shape)
        return middle.copy_(tensor)

    def are_intact(self) -> bool:
        fillings = (torch.full_like(band, filling) for band, filling in self._bands)
        pairs = zip((band for band, _ in self._bands), fillings, strict=True)
        return all(
            torch.allclose(band, filling, rtol=0, atol=0, equal_nan=True) for band, filling in pairs
        )


@pytest.fixture(autouse=True, scope="module")
def poison() -> Iterator[None]:
    """Fresh memory is NaN, also what a launcher allocates for its result: a row that is not written
    shows.
    """

    def empty(*shape: Any, **options: Any) -> Tensor:
        memory = EMPTY(*shape, **options)
        return memory.fill_(torch.nan) if memory.is_floating_point() else memory

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(torch, "empty", empty)
        monkeypatch.setattr(
            Tensor,
            "new_empty",
            lambda like, *shape, **options: empty(
                *shape, **{"dtype": like.dtype, "device": like.device} | options
            ),
        )
        yield


class Guarded:
    """A batch whose queries, cache and tables lie between guard bands, its keys already written."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._guards = guards = Guards()
        for cache, new in ((batch.key_cache, batch.key), (batch.value_cache, batch.value)):
            cache.flatten(0, 1)[batch.metadata.slot_mapping] = new
        self.key_cache, self.value_cache = guards(batch.key_cache), guards(batch.value_cache)
        self._before = self.key_cache.clone(), self.value_cache.clone()
        tables = {  # block 0 is nobody's, so it is NaN; a request of length 0 sees nothing
            "block_tables": guards(batch.metadata.block_tables, 0),
            "query_start_loc": guards(batch.metadata.query_start_loc, 0),
            "seq_lens": guards(batch.metadata.seq_lens, 0),
        }
        self.metadata = replace(batch.metadata, **tables)
        # As in a model, queries are a view of a wider matrix, whose other columns must not be read.
        num_rows, num_heads, head_dim = batch.query.shape
        wide = guards(
            torch.empty(num_rows, num_heads + 1, head_dim, dtype=batch.query.dtype, device=GPU)
        )
        self.query = wide[:, :num_heads].copy_(batch.query)
        self.output = guards(torch.empty_like(batch.query).fill_(torch.nan))

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.query, self.key_cache, self.value_cache

    def check(self, result: Tensor) -> Tensor:
        """The result, if nothing else has changed."""
        assert result is self.output
        assert self._guards.are_intact()
        for old, new in zip(self._before, (self.key_cache, self.value_cache), strict=True):
            assert torch.equal(old.view(torch.uint8), new.view(torch.uint8))
        return result


def run_kernel(batch: Batch, sliding_window: int | None = None) -> Tensor:
    """The fast attention."""
    guarded = Guarded(batch)
    plan = TritonBackend(generation=9).plan(
        guarded.metadata, replace(batch.spec, sliding_window=sliding_window)
    )
    return guarded.check(paged_attention(*guarded.inputs, plan, guarded.output))


def run_simple_kernel(batch: Batch, sliding_window: int | None = None) -> Tensor:
    """The simple attention."""
    guarded = Guarded(batch)
    plan = plan_rows(guarded.metadata, replace(batch.spec, sliding_window=sliding_window))
    return guarded.check(attend_rows(*guarded.inputs, plan, guarded.output))


@st.composite
def batches(
    draw: st.DrawFn, max_requests: int, cached: list[int], new: list[int], max_heads: int = 16
) -> Batch:
    """Lengths lie around the given ones; they are the edges of blocks, of steps of keys and of
    spans.
    """
    cached_tokens, new_tokens = (
        st.builds(lambda edge, off: max(0, edge + off), st.sampled_from(edges), st.integers(-1, 1))
        for edges in (cached, new)
    )
    spans = draw(
        st.lists(
            st.tuples(cached_tokens, st.just(1) | new_tokens), min_size=1, max_size=max_requests
        )
    )
    return make_batch(
        spans,
        block_size=draw(st.sampled_from([1, 8, 16, 32, 64])),
        num_kv_heads=draw(st.integers(1, min(2, max_heads // 8 + 1))),
        group_size=draw(st.integers(1, min(8, max_heads))),
        head_dim=draw(st.sampled_from([16, 32, 64, 128, 256]) | st.integers(16, 256)),
        dtype=draw(st.sampled_from(DTYPES)),
        seed=draw(st.integers(0, 1000)),
    ).to(GPU)


def check_attention(batch: Batch, window: int | None, split: int) -> None:
    """split: keys of a span; if a tile takes more of them at a time, as many as that, since steps
    divide spans.
    """
    spec = batch.spec
    shapes = tile_shapes(spec.head_dim, spec.group_size, spec.dtype, generation=9)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(tiles, "SPLIT", max(split, *(shape.keys for shape in shapes)))
        output = run_kernel(batch, sliding_window=window)
    if len(output):
        assert_close(
            output, dense_attention(batch, window), [values for _, values in batch.histories]
        )


@settings(max_examples=20, deadline=None)
@given(
    batch=batches(max_requests=2, cached=[0, 16, 64, 128], new=[0, 16, 32]),
    window=st.none() | st.integers(1, 150),
    split=st.sampled_from([64, 512]),  # 64: short requests are split, too
)
@pytest.mark.slow
def test_paged_attention(batch: Batch, window: int | None, split: int) -> None:
    check_attention(batch, window, split)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    batch=batches(max_requests=8, cached=[0, 16, 64, 128, 512, 1024], new=[0, 16, 64, 128]),
    window=st.none() | st.integers(1, 200),
    split=st.sampled_from([64, 128, 512]),
)
def test_paged_attention_at_length(batch: Batch, window: int | None, split: int) -> None:
    check_attention(batch, window, split)


@settings(max_examples=15, deadline=None)
@given(
    batch=batches(max_requests=2, cached=[0, 8, 16], new=[0, 2], max_heads=3),
    window=st.none() | st.integers(1, 20),
)
@pytest.mark.slow
def test_simple_attention(batch: Batch, window: int | None) -> None:
    output = run_simple_kernel(batch, sliding_window=window)
    if len(output):
        assert_close(
            output, dense_attention(batch, window), [values for _, values in batch.histories]
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.slow
def test_contexts_of_many_partial_results(dtype: torch.dtype) -> None:
    """More spans than the merge takes at a time, in a request of one query and in one of
    several.
    """
    batch = make_batch([(1200, 1), (1150, 3), (3, 1)], num_kv_heads=1, head_dim=16, dtype=dtype).to(
        GPU
    )
    check_attention(batch, None, split=64)


def test_spans_of_keys_are_merged_by_what_they_weigh() -> None:
    """More than the merge takes at a time; of the last one the first queries see nothing."""
    batch = make_batch([(1086, 4)], num_kv_heads=1, head_dim=16).to(GPU)
    check_attention(batch, None, split=64)


def test_a_row_that_sees_nothing_of_the_first_step_of_keys() -> None:
    """The last queries of a tile have a window that begins behind the keys which the first ones
    see.
    """
    batch = make_batch([(40, 60)], num_kv_heads=1, head_dim=16).to(GPU)
    check_attention(batch, window=3, split=512)


# --- bitwise --------------------------------------------------------------------------------------


def batch_of(whole: Batch, requests: list[int]) -> Batch:
    """Some requests of a batch, over the same cache."""
    lens = whole.metadata.query_lens_cpu.tolist()
    parts = {name: getattr(whole, name).split(lens) for name in ("query", "key", "value")}
    chosen = [whole.requests[i] for i in requests]
    block_size = whole.metadata.block_size
    return replace(
        whole,
        requests=chosen,
        metadata=AttentionMetadata.pack(chosen, block_size, GPU),
        **{name: torch.cat([rows[i] for i in requests]) for name, rows in parts.items()},
        histories=[whole.histories[i] for i in requests],
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.slow
def test_trap_51_a_decode_is_bitwise_the_same_in_any_batch(dtype: torch.dtype) -> None:
    """Alone, and in batches of 2, 7 and 64, first and last of them; the number of its partial
    results is its own.
    """
    # the first in two spans, the second in three
    lengths = [700, 1100, *(1 + 7 * i % 30 for i in range(62))]
    whole = make_batch([(n - 1, 1) for n in lengths], num_kv_heads=1, head_dim=16, dtype=dtype).to(
        GPU
    )
    alone = [run_kernel(batch_of(whole, [i]))[0] for i in (0, 1)]
    for order in ([1, 0], [1, 2, 3, 4, 5, 6, 0], [*range(2, 64), 0, 1]):
        together = run_kernel(batch_of(whole, order))
        for i in (0, 1):
            assert torch.equal(together[order.index(i)], alone[i]), (i, len(order))


@pytest.fixture
def dot_by_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the interpreter tl.dot is numpy's matmul: on some processors its BLAS adds up a row in an
    order that depends on the row's place in the tile. Here every element is the sum of its products
    in their order, as in hardware.
    """

    def matmul_in_order(a: Any, b: Any, dtype: Any = None) -> Any:
        products = a[..., :, :, None].astype(dtype) * b[..., None, :, :].astype(dtype)
        return products.sum(axis=-2, dtype=dtype)

    monkeypatch.setattr(numpy, "matmul", matmul_in_order)


@pytest.mark.usefixtures("dot_by_rows")
@pytest.mark.parametrize("window", [None, 40])
@pytest.mark.slow
def test_trap_51_a_prefill_in_chunks_is_the_same_as_in_one(window: int | None) -> None:
    """Within 1e-6 of the largest result in fp32. Bit for bit, while no piece is so short that its
    keys are split: a row meets its keys in the same steps whatever rows it shares a tile with."""
    whole = make_batch([(0, 150)], num_kv_heads=1, head_dim=16).to(GPU)
    expected = run_kernel(whole, sliding_window=window)
    for pieces, bitwise in (((50, 64, 36), True), ((1, 20, 3, 126), False), ((149, 1), False)):
        start = 0
        outputs = []
        for size in pieces:
            rows = slice(start, start + size)
            request = PackedRequest(whole.requests[0].block_ids, start, size)
            piece = replace(
                whole,
                requests=[request],
                metadata=AttentionMetadata.pack([request], 16, GPU),
                query=whole.query[rows],
                key=whole.key[rows],
                value=whole.value[rows],
            )
            outputs.append(run_kernel(piece, sliding_window=window))
            start += size
        output = torch.cat(outputs)
        assert (output - expected).abs().amax() <= 1e-6 * expected.abs().amax()
        assert torch.equal(output, expected) or not bitwise


# --- writing to the cache -------------------------------------------------------------------------


def random_slots(num_tokens: int, num_slots: int, generator: torch.Generator) -> Tensor:
    """Distinct slots with some padding among them; at times the first and the last slot of the
    cache.
    """
    slots = torch.randperm(num_slots, generator=generator)
    slots = torch.cat(
        (
            slots[slots == 0],
            slots[slots == num_slots - 1],
            slots[(slots > 0) & (slots < num_slots - 1)],
        )
    )
    slots = slots.roll(int(torch.randint(3, (), generator=generator)))[:num_tokens]
    return slots.where(torch.rand(num_tokens, generator=generator) < 0.8, -1)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_write_kv_and_rotation(data: st.DataObject) -> None:
    """Both kernels on the same batch. Writing is exact; turning is fp32 arithmetic, rounded
    once.
    """
    num_kv_heads, group_size = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    head_dim = data.draw(
        st.sampled_from([16, 32, 80, 128]) | st.integers(8, 128).map(lambda n: 2 * n)
    )
    num_tokens, block_size = data.draw(st.integers(0, 9)), data.draw(st.sampled_from([1, 8, 16]))
    dtype = data.draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    guards = Guards()
    num_heads = num_kv_heads * group_size
    heads = [num_heads, num_kv_heads, num_kv_heads]
    qkv = guards(torch.randn(num_tokens, sum(heads), head_dim, generator=generator).to(GPU, dtype))
    query, key, value = qkv.split(heads, dim=1)
    caches = [
        guards(torch.full((24, block_size, num_kv_heads, head_dim), torch.nan, dtype=dtype).to(GPU))
        for _ in "kv"
    ]
    slots = random_slots(num_tokens, 24 * block_size, generator).to(GPU)
    slots = guards(slots, 0)
    angles = torch.randn(num_tokens, 1, head_dim // 2, generator=generator).to(GPU)
    cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
    rotation = Rotation(guards(torch.cat((cos, cos), -1)), guards(torch.cat((-sin, sin), -1)))

    write_kv(key, value, *caches, slots)
    check_caches(caches, slots, key, value, 0.0)
    for cache in caches:
        cache.fill_(torch.nan)
    turned = rotate_and_write_kv(query, key, value, rotation, *caches, slots)
    in_float64 = Rotation(rotation.cos.double(), rotation.signed_sin.double())
    # Two products, one sum and one rounding; a unit vector's numbers stay below sqrt(2) times the
    # largest.
    bound = (ROUNDOFF[dtype] + 1e-6) * 2**0.5
    expected = apply_rotary(query.double(), in_float64)
    assert turned.shape == query.shape
    assert bool(
        (
            (turned.double() - expected).abs() <= bound * query.double().abs().amax((1, 2), True)
        ).all()
    )
    check_caches(caches, slots, apply_rotary(key.double(), in_float64), value, bound)
    assert guards.are_intact()


def check_caches(
    caches: list[Tensor], slots: Tensor, key: Tensor, value: Tensor, bound: float
) -> None:
    """What stands in the slots is right within the bound (values always exactly), everything else
    is still NaN.
    """
    real = slots >= 0
    for cache, new, error in ((caches[0], key, bound), (caches[1], value, 0.0)):
        rows = cache.flatten(0, 1).double()
        written = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        written[slots[real]] = True
        assert bool(rows[~written].isnan().all())
        if real.any():
            assert (
                rows[slots[real]] - new[real].double()
            ).abs().max() <= error * new.double().abs().max()


# --- between the matrix products ------------------------------------------------------------------


def rms_norm_in_float64(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    x = x.double()
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * weight.double()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_rms_norm(data: st.DataObject) -> None:
    """Of vectors, of heads in a wider matrix, and with the residual; each beside its torch form."""
    num_rows, num_heads = data.draw(st.integers(0, 6)), data.draw(st.integers(1, 5))
    size = data.draw(st.sampled_from([16, 128, 1024, 4096]) | st.integers(1, 300))
    dtype = data.draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    guards = Guards()

    def random(*shape: int) -> Tensor:
        return guards(torch.randn(*shape, generator=generator).to(GPU, dtype))

    wide, weight, eps = random(num_rows, num_heads + 2, size), random(size), 1e-5
    heads, x, residual = wide[:, 1:-1], random(num_rows, size), random(num_rows, size)
    # The normalised number is rounded, then its product with the weight: two roundings, each
    # relative to the result.
    bound = 1e-5 if dtype == torch.float32 else 2.1 * ROUNDOFF[dtype]

    def check(output: Tensor, normed: Tensor) -> None:
        expected = rms_norm_in_float64(normed, weight, eps)
        assert output.shape == expected.shape
        assert bool(((output.double() - expected).abs() <= bound * expected.abs() + 1e-7).all())
        twin = fused.rms_norm_torch(normed, weight, eps)
        assert bool(
            ((output.double() - twin.double()).abs() <= 2 * bound * expected.abs() + 1e-7).all()
        )

    check(fused_triton.rms_norm(heads, weight, eps), heads)
    check(fused_triton.rms_norm(x, weight, eps), x)
    total = residual + x
    normed, summed = fused_triton.add_rms_norm(x, residual, weight, eps)
    assert torch.equal(summed, total)
    check(normed, total)
    assert guards.are_intact()


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_silu_mul(data: st.DataObject) -> None:
    num_rows, size = (
        data.draw(st.integers(0, 4)),
        data.draw(st.sampled_from([1024, 1025, 3072]) | st.integers(1, 400)),
    )
    dtype = data.draw(st.sampled_from(DTYPES))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 1000)))
    guards = Guards()
    gate_up = guards((8 * torch.randn(num_rows, 2 * size, generator=generator)).to(GPU, dtype))
    output = fused_triton.silu_mul(gate_up)
    gate, up = gate_up.double().chunk(2, -1)
    expected = torch.nn.functional.silu(gate) * up
    # Two roundings; below the smallest normal number t of fp16 the first may be off by u t instead,
    # times |up|.
    bound = 1e-5 if dtype == torch.float32 else 2.1 * ROUNDOFF[dtype]
    slack = ROUNDOFF[dtype] * torch.finfo(dtype).tiny * (1 + up.abs()) + 1e-7
    assert bool(((output.double() - expected).abs() <= bound * expected.abs() + slack).all())
    twin = fused.silu_mul_torch(gate_up.clone()).double()
    assert bool(((output.double() - twin).abs() <= 2 * (bound * expected.abs() + slack)).all())
    assert guards.are_intact()


# --- numerics -------------------------------------------------------------------------------------


@triton.jit
def numerics_kernel(rounded_ptr, product_ptr, x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(rounded_ptr + at, round_to(x, rounded_ptr.dtype.element_ty))
    square = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    a = round_to(tl.load(x_ptr + square), rounded_ptr.dtype.element_ty)
    tl.store(product_ptr + square, matmul(a, a))


@pytest.mark.parametrize("dtype", DTYPES)
def test_numerics_are_those_of_torch(dtype: torch.dtype) -> None:
    """Rounding to the nearest, ties to even, infinities included; products of rounded numbers
    summed in fp32.
    """
    x = torch.randn(4096, generator=torch.Generator().manual_seed(0)) * torch.logspace(-3, 2, 4096)
    x[256:264] = torch.tensor(
        [0.0, -0.0, torch.inf, -torch.inf, 1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 65504.0]
    )
    x = x.to(GPU)
    rounded, product = torch.empty_like(x, dtype=dtype), torch.empty(16, 16, device=GPU)
    numerics_kernel[(1,)](rounded, product, x, N=4096)
    assert torch.equal(rounded, x.to(dtype))
    a = x[:256].view(16, 16).to(dtype).double()
    torch.testing.assert_close(product.double(), a @ a, atol=1e-4, rtol=1e-5)
