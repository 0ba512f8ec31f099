"""Attention: every back end against dense attention in float64, over random packed batches and
shuffled blocks.

The Triton rungs run compiled where there is a GPU, else in Triton's interpreter; test_triton.py
looks at their kernels.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mini_vllm.attention import (
    AttentionBackend,
    AttentionMetadata,
    AttentionSpec,
    PackedRequest,
    PagedAttention,
    Rotation,
    apply_rotary,
    get_backend,
    registry,
)
from mini_vllm.attention.backend import make_cache
from mini_vllm.attention.libraries import needs
from mini_vllm.attention.torch_backend import attend_chunk
from mini_vllm.errors import InvalidParameterError

CPU = torch.device("cpu")
GPU = torch.device("cuda" if torch.cuda.is_available() else "cpu")  # where the Triton rungs run
TRITON = ("triton-simple", "triton") if find_spec("triton") else ()
NO_C = registry.why_not("c", CPU)
NEEDS_C = pytest.mark.skipif(bool(NO_C), reason=f"the rung c cannot run here: {NO_C}")
BACKENDS = tuple(
    pytest.param(name, marks=NEEDS_C) if name == "c" else name
    for name in registry.BACKENDS
    if name not in needs.PACKAGES and (TRITON or not name.startswith("triton"))
)

SINKS = [name for name in registry.BACKENDS if name in ("torch", "c", "triton")]
BY_DAY = tuple(
    pytest.param(name, marks=pytest.mark.slow) if name in TRITON else name for name in BACKENDS
)  # where the interpreter would take most of the time


@dataclass
class Batch:
    """A packed batch over shuffled blocks, the whole history of each request, and a cache that
    holds its past.
    """

    requests: list[PackedRequest]
    metadata: AttentionMetadata
    spec: AttentionSpec
    query: Tensor  # [T, num_heads, head_dim]
    key: Tensor  # [T, num_kv_heads, head_dim]
    value: Tensor
    key_cache: Tensor
    value_cache: Tensor
    # keys and values of all positions of each request, this step's included
    histories: list[tuple[Tensor, Tensor]]

    def run(self, rung: str | AttentionBackend, sliding_window: int | None = None) -> Tensor:
        """Plan, write, then attend, as a step of one layer does."""
        if isinstance(rung, str):
            rung = get_backend(rung, self.query.device)
        self.lay_out(rung)
        spec = replace(self.spec, sliding_window=sliding_window)
        attend = PagedAttention(rung, [(self.key_cache, self.value_cache)], self.metadata, [spec])
        return attend(0, self.query, self.key, self.value)

    def lay_out(self, rung: AttentionBackend) -> None:
        """Bring the caches into the back end's layout, if they have the plain one."""
        self.key_cache, self.value_cache = (
            make_cache(
                cache.shape, rung.stride_order, dtype=cache.dtype, device=cache.device
            ).copy_(cache)
            if cache.is_contiguous()
            else cache
            for cache in (self.key_cache, self.value_cache)
        )

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device; on its own it is returned as it is."""
        if device == self.query.device:
            return self
        moved = {
            name: value.to(device)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        tensors = ("positions", "slot_mapping", "query_start_loc", "seq_lens", "block_tables")
        metadata = replace(
            self.metadata, **{name: getattr(self.metadata, name).to(device) for name in tensors}
        )
        histories = [(keys.to(device), values.to(device)) for keys, values in self.histories]
        return replace(self, **moved, metadata=metadata, histories=histories)


def make_batch(
    spans: list[tuple[int, int]],
    *,
    block_size: int = 16,
    num_kv_heads: int = 2,
    group_size: int = 2,
    head_dim: int = 8,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    background: float = torch.nan,
) -> Batch:
    """One request per span (num_computed_tokens, query_len). Everything in the cache that no
    request owns is `background`, so that an attention that reads it shows NaN."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    widths = [-(-sum(span) // block_size) for span in spans]
    num_blocks = sum(widths) + 3
    # neither the first nor the last block
    free = (torch.randperm(num_blocks - 2, generator=generator) + 1).tolist()
    requests = [
        PackedRequest([free.pop() for _ in range(w)], *span)
        for w, span in zip(widths, spans, strict=True)
    ]
    metadata = AttentionMetadata.pack(requests, block_size, CPU)
    cache_shape = (num_blocks, block_size, num_kv_heads, head_dim)
    key_cache = torch.full(cache_shape, background, dtype=dtype)
    value_cache = torch.full(cache_shape, background, dtype=dtype)
    histories = []
    for block_ids, num_computed_tokens, query_len in requests:
        keys, values = (
            random(num_computed_tokens + query_len, num_kv_heads, head_dim) for _ in range(2)
        )
        for position in range(num_computed_tokens):
            place = block_ids[position // block_size], position % block_size
            key_cache[place], value_cache[place] = keys[position], values[position]
        histories.append((keys, values))
    key, value = (
        torch.cat(
            [
                history[which][r.num_computed_tokens :]
                for history, r in zip(histories, requests, strict=True)
            ]
        )
        for which in range(2)
    )
    query = random(len(key), num_kv_heads * group_size, head_dim)
    spec = AttentionSpec(
        num_kv_heads * group_size, num_kv_heads, head_dim, head_dim**-0.5, dtype=dtype
    )
    return Batch(requests, metadata, spec, query, key, value, key_cache, value_cache, histories)


def with_sinks(spec: AttentionSpec, scale: float = 1.0) -> AttentionSpec:
    """The layer with sinks between -scale and scale, and one of nothing."""
    sinks = torch.linspace(-scale, scale, spec.num_heads)
    sinks[:1] = -torch.inf
    return replace(spec, sinks=sinks)


def device_of(name: str) -> torch.device:
    return GPU if name in TRITON else CPU


def dense_attention(batch: Batch, sliding_window: int | None = None) -> Tensor:
    """The definition, in float64 and without a cache: softmax(q k / sqrt(d)) v over the positions a
    query may see.
    """
    outputs = []
    queries = batch.query.double().split([request.query_len for request in batch.requests])
    for query, request, (keys, values) in zip(
        queries, batch.requests, batch.histories, strict=True
    ):
        group_size = query.shape[1] // keys.shape[1]
        keys, values = (x.double().repeat_interleave(group_size, dim=1) for x in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", query, keys) * batch.spec.scale
        sinks = batch.spec.sinks  # one score more for each head, which has no value
        if sinks is None:
            sinks = torch.full(query.shape[1:2], -torch.inf, device=query.device)
        query_positions = torch.arange(request.num_computed_tokens, len(keys), device=keys.device)[
            :, None
        ]
        key_positions = torch.arange(len(keys), device=keys.device)[None]
        visible = key_positions <= query_positions
        if sliding_window is not None:
            visible &= key_positions > query_positions - sliding_window
        scores = scores.masked_fill(~visible, -torch.inf)
        beside = sinks.double()[:, None, None].expand(-1, len(query), 1)
        weights = torch.cat((scores, beside), -1).softmax(dim=-1)[..., :-1]
        outputs.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(outputs)


@st.composite
def spans_around_block_edges(draw: st.DrawFn, block_size: int) -> list[tuple[int, int]]:
    """Requests whose cached and new tokens end just before, at, or just after a block edge; some
    are decodes.
    """
    spans = []
    for _ in range(draw(st.integers(1, 4))):
        start = max(0, draw(st.integers(0, 2)) * block_size + draw(st.integers(-1, 1)))
        chunk = max(1, draw(st.integers(0, 2)) * block_size + draw(st.integers(-1, 1)))
        spans.append((start, draw(st.sampled_from([1, chunk]))))
    return spans


def assert_close(output: Tensor, expected: Tensor, values: list[Tensor]) -> None:
    """fp32: 1e-5 of the largest result. fp16, bf16: what the roundings of a kernel can come to.

    With u the unit roundoff: the softmax weights p are rounded before they meet the values, which
    moves the mean sum(p v) / sum(p) by at most u max|v|; below the smallest normal number t of fp16
    a weight may be off by u t instead, for n keys n u t max|v|. Then the result is rounded: u
    max|result|. The rest is fp32's, 1e-5 max|v|.
    """
    assert not output.isnan().any()
    error, largest = (output.double() - expected).abs().amax(), expected.abs().amax()
    if output.dtype == torch.float32:
        assert error <= 1e-5 * largest, float(error / largest)
        return
    info = torch.finfo(output.dtype)
    roundoff = info.eps / 2
    largest_value = max(float(v.abs().amax()) for v in values if v.numel())
    num_keys = max(len(v) for v in values)
    bound = (roundoff + num_keys * roundoff * info.tiny + 1e-5) * largest_value + roundoff * largest
    assert error <= bound, (float(error), float(bound))


# theirs is in test_triton.py
@pytest.mark.parametrize("name", [name for name in BACKENDS if name not in TRITON])
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_backend_equals_dense_attention_in_float64(name: str, data: st.DataObject) -> None:
    block_size = data.draw(st.sampled_from([1, 2, 3, 8, 16, 17, 64]), label="block_size")
    num_kv_heads = data.draw(st.integers(1, 3), label="num_kv_heads")
    group_size = data.draw(st.integers(1, 8), label="group_size")
    spans = data.draw(spans_around_block_edges(block_size), label="spans")
    head_dim = data.draw(st.sampled_from([2, 8, 16, 20, 32, 64]), label="head_dim")
    if name == "reference":  # it goes one query at a time
        spans = [(start, min(num_tokens, 12)) for start, num_tokens in spans]
    window = data.draw(st.none() | st.integers(1, 2 * block_size + 2), label="sliding_window")
    dtype = data.draw(
        st.sampled_from([torch.float32, torch.bfloat16, torch.float16]), label="dtype"
    )
    batch = make_batch(
        spans,
        block_size=block_size,
        num_kv_heads=num_kv_heads,
        group_size=group_size,
        head_dim=head_dim,
        dtype=dtype,
        seed=data.draw(st.integers(0, 1000), label="seed"),
    )
    if (scale := data.draw(st.sampled_from([0, 1, 30]), label="sinks")) and name in SINKS:
        batch.spec = with_sinks(batch.spec, scale)
    expected = dense_attention(batch, window)
    output = batch.run(name, window)
    assert output.dtype == dtype
    assert output.shape == batch.query.shape
    assert_close(output, expected, [values for _, values in batch.histories])


@pytest.mark.parametrize("name", BY_DAY)
def test_a_request_gets_the_same_result_alone_and_in_a_batch(name: str) -> None:
    batch = make_batch([(20, 1), (0, 9), (15, 3), (0, 1)]).to(device_of(name))
    lens = batch.metadata.query_lens_cpu.tolist()
    together = batch.run(name).split(lens)
    queries, keys, values = batch.query.split(lens), batch.key.split(lens), batch.value.split(lens)
    for i, request in enumerate(batch.requests):
        metadata = AttentionMetadata.pack([request], 16, device_of(name))
        rung = get_backend(name, device_of(name))
        attend = PagedAttention(
            rung, [(batch.key_cache, batch.value_cache)], metadata, [batch.spec]
        )
        alone = attend(0, queries[i], keys[i], values[i])
        assert torch.equal(alone, together[i])


@pytest.mark.parametrize(
    ("group_size", "head_dim", "window"), [(2, 8, None), (4, 32, None), (8, 64, 50)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    "name",
    [pytest.param("c", marks=NEEDS_C)]
    + [pytest.param("triton", marks=pytest.mark.nightly)] * bool(TRITON),
)
def test_a_query_has_the_same_bits_in_every_chunk(
    name: str, group_size: int, head_dim: int, window: int | None, dtype: torch.dtype
) -> None:
    """With batch_invariant, also behind 512 keys, where a decode is split otherwise."""
    device = device_of(name)
    length = 600 if name == "c" else 112  # the interpreter takes a query at a time
    batch = make_batch([(0, length)], group_size=group_size, head_dim=head_dim, dtype=dtype)
    assert_same_bits_in_every_chunk(name, batch.to(device), window)


def assert_same_bits_in_every_chunk(name: str, batch: Batch, window: int | None) -> None:
    """batch: of one request, whose tokens are all new."""
    device, length = batch.query.device, len(batch.query)
    backend = get_backend(name, device, batch.query.dtype, batch_invariant=True)
    whole = batch.run(backend, window)
    (request,), pages = batch.requests, (batch.key_cache, batch.value_cache)
    spec = replace(batch.spec, sliding_window=window)

    def part(first: int, n: int) -> Tensor:
        chunk = PackedRequest(request.block_ids, first, n)
        metadata = AttentionMetadata.pack([chunk], 16, device)
        rows = slice(first, first + n)
        attend = PagedAttention(backend, [pages], metadata, [spec])
        return attend(0, batch.query[rows], batch.key[rows], batch.value[rows])

    for first, n in ((length - 1, 1), (2, 3), (length - 100, 17), (length - 65, 65)):
        assert torch.equal(part(first, n), whole[first : first + n]), (first, n)


@pytest.mark.parametrize(
    "name",
    [
        "torch",
        pytest.param("c", marks=NEEDS_C),
        *(pytest.param("triton", marks=pytest.mark.slow) for _ in TRITON[:1]),
    ],
)
def test_layers_of_one_plan_have_sinks_of_their_own(name: str) -> None:
    """Decodes whose keys are split, chunks, and a request that sees nothing."""
    batch = make_batch([(1100, 1), (600, 3), (0, 5)], num_kv_heads=1).to(device_of(name))
    rung = get_backend(name, batch.query.device)
    batch.lay_out(rung)
    plain = batch.spec
    specs = [with_sinks(plain, scale) for scale in (1.0, 9.0)] + [plain]
    specs = [
        spec if spec.sinks is None else replace(spec, sinks=spec.sinks.to(batch.query.device))
        for spec in specs
    ]
    caches = [(batch.key_cache, batch.value_cache)] * 3
    attend = PagedAttention(rung, caches, batch.metadata, specs)
    for layer, spec in enumerate(specs):
        batch.spec = spec
        output = attend(layer, batch.query, batch.key, batch.value)
        assert_close(output, dense_attention(batch), [values for _, values in batch.histories])


@pytest.mark.parametrize("name", ["reference", "triton-simple"])
def test_a_rung_without_sinks_refuses_them_before_it_writes(name: str) -> None:
    if name not in (*TRITON, "reference"):
        pytest.skip("Triton has Linux wheels only")
    batch = make_batch([(5, 3)]).to(device_of(name))
    batch.spec = with_sinks(batch.spec)
    before = batch.key_cache.clone()
    with pytest.raises(InvalidParameterError, match=f"attention backend '{name}' has no sinks"):
        batch.run(name)
    assert torch.equal(batch.key_cache.nan_to_num(), before.nan_to_num())


@pytest.mark.parametrize("name", BY_DAY)
def test_keys_of_a_request_are_visible_to_another_in_the_same_step(name: str) -> None:
    """Two requests share a block that the first one computes in this step: a prefix hit on a
    promise.
    """
    batch = make_batch([(0, 8), (4, 4)], block_size=4)
    first, second = batch.requests
    shared = PackedRequest(
        [first.block_ids[0], second.block_ids[1]], second.num_computed_tokens, second.query_len
    )
    # the one that depends comes first
    batch.metadata = AttentionMetadata.pack([shared, first], 4, CPU)
    batch.query = torch.cat((batch.query[8:], batch.query[:8]))
    batch.key, batch.value = (torch.cat((x[8:], x[:8])) for x in (batch.key, batch.value))
    batch.requests = [shared, first]
    (keys, values), (tail_keys, tail_values) = batch.histories
    batch.histories = [
        (torch.cat((keys[:4], tail_keys[4:])), torch.cat((values[:4], tail_values[4:]))),
        (keys, values),
    ]
    batch = batch.to(device_of(name))
    torch.testing.assert_close(batch.run(name).double(), dense_attention(batch), atol=1e-5, rtol=0)


def pad_rows(batch: Batch, num_rows: int, poison: float) -> None:
    """Rows of no request behind the batch, as a step of a fixed size has them: slot -1, and poison
    for content.
    """
    padding = torch.full((num_rows,), -1, dtype=torch.int64, device=batch.query.device)
    batch.metadata = replace(
        batch.metadata, slot_mapping=torch.cat((batch.metadata.slot_mapping, padding))
    )
    batch.query, batch.key, batch.value = (
        torch.cat((x, torch.full_like(x[:1], poison).expand(num_rows, -1, -1)))
        for x in (batch.query, batch.key, batch.value)
    )


@pytest.mark.parametrize("name", BACKENDS)
def test_trap_39_padding_writes_nothing_and_attends_to_nothing(name: str) -> None:
    """Three requests padded to four rows. A canary stands in every slot that no request owns, block
    0 and the last block among them: a slot of -1 taken for an index hits the last, a slot of -1
    clamped hits block 0."""
    batch = make_batch([(5, 1), (16, 1), (0, 1)], background=7.0).to(device_of(name))
    expected = dense_attention(batch)
    caches = batch.key_cache.clone(), batch.value_cache.clone()
    slots = batch.metadata.slot_mapping.tolist()
    pad_rows(batch, 1, poison=100.0)
    output = batch.run(name)
    torch.testing.assert_close(output[:3].double(), expected, atol=1e-5, rtol=0)
    assert torch.equal(output[3:], torch.zeros_like(output[3:]))
    for before, after, new in zip(
        caches, (batch.key_cache, batch.value_cache), (batch.key, batch.value), strict=True
    ):
        before.flatten(0, 1)[slots] = new[:3]
        assert torch.equal(before, after)


@pytest.mark.parametrize("name", BY_DAY)
def test_trap_40_a_row_of_a_request_without_tokens_is_zero_and_harms_nobody(name: str) -> None:
    """A padded row may also come as a request of one query and no keys: the softmax of nothing is
    NaN, and 0 here.
    """
    batch = make_batch([(5, 1), (16, 3)]).to(device_of(name))
    windows = (None, 4)
    expected = [dense_attention(batch, window) for window in windows]
    pad_rows(batch, 2, poison=torch.nan)
    meta = batch.metadata
    device = batch.query.device
    batch.metadata = replace(
        meta,
        query_start_loc=torch.tensor([0, 1, 4, 5, 6, 6], dtype=torch.int32, device=device),
        seq_lens=torch.tensor([6, 19, 0, 0, 0], dtype=torch.int32, device=device),
        block_tables=torch.cat(
            (meta.block_tables, torch.full_like(meta.block_tables[:1], 0).expand(3, -1))
        ),
        query_lens_cpu=np.array([1, 3, 1, 1, 0]),
        seq_lens_cpu=np.array([6, 19, 0, 0, 0]),
    )
    for window, result in zip(windows, expected, strict=True):
        output = batch.run(name, window)
        torch.testing.assert_close(output[:4].double(), result, atol=1e-5, rtol=0)
        assert torch.equal(output[4:], torch.zeros_like(output[4:]))


@pytest.mark.parametrize("name", BACKENDS)
def test_trap_41_block_table_columns_past_the_sequence_are_not_read(name: str) -> None:
    batch = make_batch([(3, 1), (70, 1)]).to(device_of(name))
    batch.metadata.block_tables[0, 1:] = 2**31 - 1  # reading through it would be out of bounds
    torch.testing.assert_close(batch.run(name).double(), dense_attention(batch), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", BACKENDS)
def test_large_scores_stay_finite(name: str) -> None:
    batch = make_batch([(40, 2)]).to(device_of(name))
    batch.query *= 1e4
    # A GPU adds in another order: float32 scores near 3e4 lie 2e-3 apart, and a weight is the power
    # of a score.
    tolerance = 1e-3 if batch.query.device.type == "cpu" else 1e-2
    torch.testing.assert_close(
        batch.run(name).double(), dense_attention(batch), atol=tolerance, rtol=tolerance
    )


@pytest.mark.parametrize("name", BACKENDS)
def test_an_empty_batch_is_an_empty_result(name: str) -> None:
    batch = make_batch([(4, 1)]).to(device_of(name))
    batch.metadata = AttentionMetadata.pack([], 16, device_of(name))
    batch.query, batch.key, batch.value = batch.query[:0], batch.key[:0], batch.value[:0]
    assert batch.run(name).shape == batch.query.shape


@pytest.mark.parametrize("name", BACKENDS)
def test_rotation_before_the_write_is_that_of_the_torch_form(name: str) -> None:
    """PagedAttention with a rotation equals turning query and key first; keys and values may be
    views of one tensor.
    """
    plain, fused = (
        make_batch([(5, 3), (16, 1)], head_dim=16).to(device_of(name)) for _ in range(2)
    )
    angles = torch.arange(4.0)[:, None, None] * torch.linspace(1.0, 0.01, 8)
    cos, sin = angles.cos(), angles.sin()
    rotation = Rotation(
        torch.cat((cos, cos), -1).to(device_of(name)),
        torch.cat((-sin, sin), -1).to(device_of(name)),
    )
    plain.query, plain.key = apply_rotary(plain.query, rotation), apply_rotary(plain.key, rotation)
    qkv = torch.cat((fused.query, fused.key, fused.value), dim=1)
    rung = get_backend(name, device_of(name))
    fused.lay_out(rung)
    caches = [(fused.key_cache, fused.value_cache)]
    attend = PagedAttention(rung, caches, fused.metadata, [fused.spec])
    output = attend(0, *qkv.split([4, 2, 2], dim=1), rotation)
    torch.testing.assert_close(output, plain.run(name), atol=1e-5, rtol=0)
    torch.testing.assert_close(fused.key_cache, plain.key_cache, atol=1e-6, rtol=0, equal_nan=True)
    torch.testing.assert_close(fused.value_cache, plain.value_cache, atol=0, rtol=0, equal_nan=True)


@pytest.mark.parametrize("name", BY_DAY)
def test_a_step_is_planned_once_for_layers_that_are_alike(name: str) -> None:
    """Three layers, the second with a window: two plans, made before the first layer runs; each
    layer has its own.
    """
    batch = make_batch([(20, 1), (5, 3)]).to(device_of(name))
    rung = get_backend(name, device_of(name))
    batch.lay_out(rung)
    planned = []

    class Watched(type(rung)):  # type: ignore[misc]
        def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> Any:
            planned.append(spec)
            return super().plan(metadata, spec)

    rung.__class__ = Watched
    windows = (None, 4, None)
    specs = [replace(batch.spec, sliding_window=window) for window in windows]
    caches = [(batch.key_cache.clone(), batch.value_cache.clone()) for _ in specs]
    attend = PagedAttention(rung, caches, batch.metadata, specs)
    assert planned == specs[:2]
    for layer_idx, window in enumerate(windows):
        output = attend(layer_idx, batch.query, batch.key, batch.value)
        torch.testing.assert_close(
            output.double(), dense_attention(batch, window), atol=1e-5, rtol=0
        )
    assert len(planned) == 2


# torch warns when it has to resize a buffer that is too small
@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("name", ["torch", pytest.param("c", marks=NEEDS_C), *TRITON[1:]])
def test_one_back_end_object_serves_caches_of_several_kinds(name: str) -> None:
    """It may meet longer requests, other dtypes and other head shapes later."""
    rung = get_backend(name, device_of(name))
    for dtype, head_dim, length in (
        (torch.float32, 8, 20),
        (torch.float32, 8, 90),
        (torch.bfloat16, 16, 20),
    ):
        batch = make_batch([(length, 1)], head_dim=head_dim, dtype=dtype).to(device_of(name))
        assert_close(
            batch.run(rung), dense_attention(batch), [values for _, values in batch.histories]
        )


def test_pack_refuses_a_request_that_reaches_past_its_blocks() -> None:
    with pytest.raises(
        InvalidParameterError,
        match="request 1: 2 blocks have room for 8 tokens, its sequence has 9",
    ):
        AttentionMetadata.pack([PackedRequest([1], 0, 4), PackedRequest([5, 2], 3, 6)], 4, CPU)


def test_pack_lays_requests_end_to_end() -> None:
    metadata = AttentionMetadata.pack(
        [PackedRequest([5, 2], 3, 3), PackedRequest([7], 0, 1)], 4, CPU
    )
    assert metadata.slot_mapping.tolist() == [23, 8, 9, 28]
    assert metadata.query_start_loc.tolist() == [0, 3, 4]
    assert metadata.seq_lens.tolist() == [6, 1] == metadata.seq_lens_cpu.tolist()
    assert metadata.block_tables[0].tolist() == [5, 2]
    assert metadata.block_tables[1, 0] == 7
    assert metadata.query_lens_cpu.tolist() == [3, 1]
    assert metadata.positions.tolist() == [3, 4, 5, 0]


@settings(deadline=None)
@given(
    spans=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=6),
    block_size=st.integers(1, 9),
)
def test_build_says_of_wide_tables_what_pack_says_of_requests(
    spans: list[tuple[int, int]], block_size: int
) -> None:
    """Tables are padded with ids of no block and wider than any sequence. The caller's arrays may
    change afterwards.
    """
    widths = [-(-sum(span) // block_size) for span in spans]
    tables = np.full((len(spans), max(widths, default=0) + 2), 2**31 - 1, np.int32)
    for i, width in enumerate(widths):
        tables[i, :width] = range(10 * i, 10 * i + width)
    computed, lens = (np.array([span[which] for span in spans], np.int64) for which in range(2))
    built = AttentionMetadata.build(computed, lens, tables, block_size, CPU)
    requests = [
        PackedRequest(row[:width].tolist(), *s)
        for row, width, s in zip(tables, widths, spans, strict=True)
    ]
    tables[:], computed[:], lens[:] = -1, -1, -1
    packed = AttentionMetadata.pack(requests, block_size, CPU)
    for name in (
        "positions",
        "slot_mapping",
        "query_start_loc",
        "seq_lens",
        "query_lens_cpu",
        "seq_lens_cpu",
    ):
        assert getattr(built, name).tolist() == getattr(packed, name).tolist()
        assert getattr(built, name).dtype == getattr(packed, name).dtype
    assert built.positions.tolist() == [start + i for start, n in spans for i in range(n)]
    for request, row in zip(requests, built.block_tables.tolist(), strict=True):
        assert row[: len(request.block_ids)] == request.block_ids
    # no wider than the longest sequence
    assert built.block_tables.shape == packed.block_tables.shape


def test_build_refuses_a_sequence_that_is_longer_than_its_row() -> None:
    computed, lens = np.array([0, 5, 8]), np.array([8, 4, 0])
    with pytest.raises(
        InvalidParameterError,
        match="request 1: 2 blocks have room for 8 tokens, its sequence has 9",
    ):
        AttentionMetadata.build(computed, lens, np.zeros((3, 2), np.int32), 4, CPU)


# --- bad input ------------------------------------------------------------------------------------


def spoil(**changes: Any) -> Callable[[Batch], None]:
    return lambda batch: vars(batch).update(
        {name: change(getattr(batch, name)) for name, change in changes.items()}
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            spoil(key=lambda x: x[:2]),
            "key has shape [2, 2, 8], the batch's 4 slots and the layer need [4, 2, 8]",
        ),
        (
            spoil(value=lambda x: x.half()),
            "value is torch.float16, the layer and its KV cache are torch.float32",
        ),
        (
            spoil(query=lambda x: x.double()),
            "query is torch.float64, the layer and its KV cache are torch.float32",
        ),
        (
            spoil(query=lambda x: x[:, :3]),
            "query has shape [4, 3, 8], the batch's 4 slots and the layer need [4, 4, 8]",
        ),
        (
            spoil(query=lambda x: x[..., :6]),
            "query has shape [4, 4, 6], the batch's 4 slots and the layer need",
        ),
        (
            spoil(value_cache=lambda x: x.half()),
            "value_cache is [6, 16, 2, 8] torch.float16, key_cache [6, 16, 2, 8]",
        ),
        (
            spoil(key_cache=lambda x: x.transpose(0, 1).contiguous().transpose(0, 1)),
            "have strides (16, 96, 8, 1)",
        ),
        (
            spoil(spec=lambda spec: replace(spec, num_kv_heads=4)),
            "key_cache is [6, 16, 2, 8] torch.float32, the layer needs [6, 16, 4, 8] torch.float32",
        ),
        (
            spoil(spec=lambda spec: replace(spec, dtype=torch.float16)),
            "the layer needs [6, 16, 2, 8] torch.float16",
        ),
        (
            spoil(metadata=lambda m: replace(m, block_tables=m.block_tables[:, :1])),
            "block_tables has 1 columns, room for 16 tokens; the longest sequence has 17",
        ),
        (
            spoil(metadata=lambda m: replace(m, block_size=8)),
            "key_cache has blocks of 16 tokens, the batch was packed for block_size 8",
        ),
    ],
)
@pytest.mark.parametrize("name", BACKENDS)
def test_bad_input_is_refused_before_anything_is_written(
    name: str, change: Callable[[Batch], None], message: str
) -> None:
    batch = make_batch([(5, 3), (16, 1)])
    change(batch)
    cache = batch.key_cache.clone()
    with pytest.raises(InvalidParameterError, match=re.escape(message)):
        batch.to(device_of(name)).run(name)
    torch.testing.assert_close(batch.key_cache, cache, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 3}, "num_heads is 3, which is no multiple of num_kv_heads, 2"),
        ({"num_kv_heads": 0}, "num_heads is 4, which is no multiple of num_kv_heads, 0"),
        ({"head_dim": 257}, "head_dim is 257, supported are 1 to 256"),
        ({"scale": 0.0}, "scale is 0.0, it must be above 0"),
        ({"sliding_window": 0}, "sliding_window is 0, it must be None or at least 1"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        AttentionSpec(**{"num_heads": 4, "num_kv_heads": 2, "head_dim": 8, "scale": 1.0, **changes})


@pytest.mark.parametrize("name", BACKENDS)
def test_debug_mode_looks_at_every_slot_and_block(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINI_VLLM_DEBUG", "1")
    make_batch([(5, 3), (16, 1)]).to(device_of(name)).run(name)
    batch = make_batch([(5, 3), (16, 1)]).to(device_of(name))
    batch.metadata.slot_mapping[2] = 96
    with pytest.raises(
        InvalidParameterError,
        match=re.escape("slot_mapping[2] is 96, allowed are -1 (padding) and [0, 96)"),
    ):
        batch.run(name)
    batch = make_batch([(5, 3), (16, 1)]).to(device_of(name))
    batch.metadata.block_tables[1, 1] = -3
    with pytest.raises(
        InvalidParameterError, match=re.escape("block_tables[1, 1] is -3, allowed is [0, 6)")
    ):
        batch.run(name)


# --- which one runs -------------------------------------------------------------------------------


def test_backend_is_chosen_by_name() -> None:
    assert get_backend("auto", CPU).name == ("torch" if NO_C else "c")
    for name in registry.BACKENDS:
        if registry.why_not(name, device_of(name)) is None:
            assert get_backend(name, device_of(name)).name == name
    known = re.escape(", ".join(("auto", *registry.BACKENDS)))
    with pytest.raises(InvalidParameterError, match=f"'flash' is not one of: {known}"):
        get_backend("flash", CPU)


@pytest.mark.skipif(not TRITON, reason="Triton has Linux wheels only")
def test_triton_on_a_cpu_needs_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with pytest.raises(
        InvalidParameterError,
        match="'triton' cannot run on cpu: it needs a GPU; TRITON_INTERPRET=1",
    ):
        get_backend("triton", CPU)


@pytest.mark.skipif(not TRITON, reason="Triton has Linux wheels only")
def test_an_interpreter_that_numpy_outgrew_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"triton": "3.6.0", "numpy": "2.4.6"}
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(needs, "version", versions.__getitem__)
    with pytest.raises(
        InvalidParameterError,
        match=r"interpreter of Triton 3.6.0 needs a NumPy below 2.4, 2.4.6 is",
    ):
        get_backend("triton-simple", CPU)
    versions["numpy"] = "2.3.5"
    assert registry.why_not("triton", CPU) is None


@pytest.mark.parametrize("sliding_window", [None, 3])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_value_that_is_no_number_spoils_only_the_queries_that_see_it(
    sliding_window: int | None, value: float
) -> None:
    """Else a prompt with one bad token would spoil the blocks before that token, which other
    requests share.
    """
    torch.manual_seed(0)
    query, key = torch.randn(8, 4, 8), torch.randn(2, 8, 8)
    values = torch.randn(2, 8, 8)
    expected = attend_chunk(query, key, values, 0.3, sliding_window)
    values[:, 5], key[:, 5] = value, torch.nan
    output = attend_chunk(query, key, values, 0.3, sliding_window)
    assert torch.allclose(output[:5], expected[:5])
    assert output[5:].isnan().all()
