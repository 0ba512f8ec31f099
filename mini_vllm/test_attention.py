"""Attention: every back end against dense attention in float64, over random packed batches and shuffled blocks."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mini_vllm.attention import AttentionBackend, AttentionMetadata, PackedRequest, PagedAttention, get_backend
from mini_vllm.errors import InvalidParameterError

CPU = torch.device("cpu")
BACKENDS = ("reference", "torch")


@dataclass
class Batch:
    """A packed batch over shuffled blocks, the whole history of each request, and a cache that holds its past."""

    requests: list[PackedRequest]
    metadata: AttentionMetadata
    query: Tensor  # [T, num_heads, head_dim]
    key: Tensor  # [T, num_kv_heads, head_dim]
    value: Tensor
    key_cache: Tensor
    value_cache: Tensor
    histories: list[tuple[Tensor, Tensor]]  # keys and values of all positions of each request, this step's included

    def run(self, backend: AttentionBackend, sliding_window: int | None = None) -> Tensor:
        """Write, then attend, as a layer of a model does."""
        attend = PagedAttention(backend, [(self.key_cache, self.value_cache)], self.metadata)
        return attend(0, self.query, self.key, self.value, scale=self.scale, sliding_window=sliding_window)

    @property
    def scale(self) -> float:
        return float(self.query.shape[-1] ** -0.5)


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
    """One request per span (start, num_tokens): its first `start` tokens are cached. Everything in the cache that no
    request owns is `background`, so that an attention that reads it shows NaN."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    widths = [-(-(start + num_tokens) // block_size) for start, num_tokens in spans]
    num_blocks = sum(widths) + 3
    free = torch.randperm(num_blocks, generator=generator).tolist()
    requests = [PackedRequest([free.pop() for _ in range(w)], *span) for w, span in zip(widths, spans, strict=True)]
    metadata = AttentionMetadata.pack(requests, block_size, CPU)
    cache_shape = (num_blocks, block_size, num_kv_heads, head_dim)
    key_cache = torch.full(cache_shape, background, dtype=dtype)
    value_cache = torch.full(cache_shape, background, dtype=dtype)
    histories = []
    for block_ids, start, num_tokens in requests:
        keys, values = (random(start + num_tokens, num_kv_heads, head_dim) for _ in range(2))
        for position in range(start):
            place = block_ids[position // block_size], position % block_size
            key_cache[place], value_cache[place] = keys[position], values[position]
        histories.append((keys, values))
    key, value = (
        torch.cat([history[which][r.start :] for history, r in zip(histories, requests, strict=True)])
        for which in range(2)
    )
    query = random(len(key), num_kv_heads * group_size, head_dim)
    return Batch(requests, metadata, query, key, value, key_cache, value_cache, histories)


def dense_attention(batch: Batch, sliding_window: int | None = None) -> Tensor:
    """The definition, in float64 and without a cache: softmax(q k / sqrt(d)) v over the positions a query may see."""
    outputs = []
    queries = batch.query.double().split([request.num_tokens for request in batch.requests])
    for query, request, (keys, values) in zip(queries, batch.requests, batch.histories, strict=True):
        group_size = query.shape[1] // keys.shape[1]
        keys, values = (x.double().repeat_interleave(group_size, dim=1) for x in (keys, values))
        scores = torch.einsum("qhd,khd->hqk", query, keys) * batch.scale
        query_positions = torch.arange(request.start, len(keys))[:, None]
        key_positions = torch.arange(len(keys))[None]
        visible = key_positions <= query_positions
        if sliding_window is not None:
            visible &= key_positions > query_positions - sliding_window
        weights = scores.masked_fill(~visible, -torch.inf).softmax(dim=-1)
        outputs.append(torch.einsum("hqk,khd->qhd", weights, values))
    return torch.cat(outputs)


@st.composite
def spans_around_block_edges(draw: st.DrawFn, block_size: int) -> list[tuple[int, int]]:
    """Requests whose cached and new tokens end just before, at, or just after a block edge; some are decodes."""
    spans = []
    for _ in range(draw(st.integers(1, 4))):
        start = max(0, draw(st.integers(0, 2)) * block_size + draw(st.integers(-1, 1)))
        chunk = max(1, draw(st.integers(0, 2)) * block_size + draw(st.integers(-1, 1)))
        spans.append((start, draw(st.sampled_from([1, chunk]))))
    return spans


@pytest.mark.parametrize("name", BACKENDS)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_backend_equals_dense_attention_in_float64(name: str, data: st.DataObject) -> None:
    block_size = data.draw(st.sampled_from([1, 2, 3, 8, 16, 17, 64]), label="block_size")
    spans = data.draw(spans_around_block_edges(block_size), label="spans")
    if name == "reference":  # it goes one query at a time
        spans = [(start, min(num_tokens, 12)) for start, num_tokens in spans]
    window = data.draw(st.none() | st.integers(1, 2 * block_size + 2), label="sliding_window")
    dtype = data.draw(st.sampled_from([torch.float32, torch.bfloat16]), label="dtype")
    batch = make_batch(
        spans,
        block_size=block_size,
        num_kv_heads=data.draw(st.integers(1, 3), label="num_kv_heads"),
        group_size=data.draw(st.sampled_from([1, 2, 3, 8]), label="group_size"),
        head_dim=data.draw(st.sampled_from([2, 8, 20, 64]), label="head_dim"),
        dtype=dtype,
        seed=data.draw(st.integers(0, 1000), label="seed"),
    )
    expected = dense_attention(batch, window)
    output = batch.run(get_backend(name, CPU), window)
    assert output.dtype == dtype
    assert output.shape == batch.query.shape
    # bfloat16 has 8 bits: the output is rounded to them, and a fused kernel rounds the softmax weights as well.
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(output.double(), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_request_gets_the_same_result_alone_and_in_a_batch(name: str) -> None:
    batch = make_batch([(40, 1), (0, 33), (31, 5), (0, 1)])
    together = batch.run(get_backend(name, CPU)).split(batch.metadata.query_lens)
    keys, values = batch.key.split(batch.metadata.query_lens), batch.value.split(batch.metadata.query_lens)
    queries = batch.query.split(batch.metadata.query_lens)
    for i, request in enumerate(batch.requests):
        metadata = AttentionMetadata.pack([request], 16, CPU)
        attend = PagedAttention(get_backend(name, CPU), [(batch.key_cache, batch.value_cache)], metadata)
        alone = attend(0, queries[i], keys[i], values[i], scale=batch.scale)
        assert torch.equal(alone, together[i])


@pytest.mark.parametrize("name", BACKENDS)
def test_keys_of_a_request_are_visible_to_another_in_the_same_step(name: str) -> None:
    """Two requests share a block that the first one computes in this step: a prefix hit on a promise."""
    batch = make_batch([(0, 8), (4, 4)], block_size=4)
    first, second = batch.requests
    shared = PackedRequest([first.block_ids[0], second.block_ids[1]], second.start, second.num_tokens)
    batch.metadata = AttentionMetadata.pack([shared, first], 4, CPU)  # the one that depends comes first
    batch.query = torch.cat((batch.query[8:], batch.query[:8]))
    batch.key, batch.value = (torch.cat((x[8:], x[:8])) for x in (batch.key, batch.value))
    batch.requests = [shared, first]
    (keys, values), (tail_keys, tail_values) = batch.histories
    batch.histories = [
        (torch.cat((keys[:4], tail_keys[4:])), torch.cat((values[:4], tail_values[4:]))),
        (keys, values),
    ]
    torch.testing.assert_close(batch.run(get_backend(name, CPU)).double(), dense_attention(batch), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", BACKENDS)
def test_trap_39_padding_writes_nothing_and_attends_to_nothing(name: str) -> None:
    batch = make_batch([(5, 3), (16, 1)], background=7.0)
    expected = dense_attention(batch)
    caches = batch.key_cache.clone(), batch.value_cache.clone()
    slots = batch.metadata.slot_mapping.tolist()
    object.__setattr__(batch.metadata, "slot_mapping", torch.tensor([*slots, -1, -1]))
    batch.query, batch.key, batch.value = (
        torch.cat((x, torch.full((2, *x.shape[1:]), 100.0))) for x in (batch.query, batch.key, batch.value)
    )
    output = batch.run(get_backend(name, CPU))
    torch.testing.assert_close(output[:4].double(), expected, atol=1e-5, rtol=0)
    assert torch.equal(output[4:], torch.zeros_like(output[4:]))
    for before, after, new in zip(caches, (batch.key_cache, batch.value_cache), (batch.key, batch.value), strict=True):
        before.flatten(0, 1)[slots] = new[:4]
        assert torch.equal(before, after)


@pytest.mark.parametrize("name", BACKENDS)
def test_trap_41_block_table_columns_past_the_sequence_are_not_read(name: str) -> None:
    batch = make_batch([(3, 1), (70, 1)])
    batch.metadata.block_tables[0, 1:] = 2**31 - 1  # reading through it would be out of bounds
    torch.testing.assert_close(batch.run(get_backend(name, CPU)).double(), dense_attention(batch), atol=1e-5, rtol=0)


def test_large_scores_stay_finite() -> None:
    for name in BACKENDS:
        batch = make_batch([(40, 2)])
        batch.query *= 1e4
        output = batch.run(get_backend(name, CPU))
        torch.testing.assert_close(output.double(), dense_attention(batch), atol=1e-3, rtol=1e-3)


@pytest.mark.filterwarnings("error")  # torch warns when it has to resize a buffer that is too small
def test_scratch_memory_follows_a_change_of_cache() -> None:
    """One back end object may meet longer requests, other dtypes and other head shapes later."""
    backend = get_backend("torch", CPU)
    for dtype, head_dim, length in ((torch.float32, 8, 20), (torch.float32, 8, 90), (torch.bfloat16, 16, 20)):
        batch = make_batch([(length, 1)], head_dim=head_dim, dtype=dtype)
        tolerance = 1e-5 if dtype == torch.float32 else 2e-2
        expected = dense_attention(batch)
        torch.testing.assert_close(batch.run(backend).double(), expected, atol=tolerance, rtol=tolerance)


def test_pack_lays_requests_end_to_end() -> None:
    metadata = AttentionMetadata.pack([PackedRequest([5, 2], 3, 3), PackedRequest([7], 0, 1)], 4, CPU)
    assert metadata.slot_mapping.tolist() == [23, 8, 9, 28]
    assert metadata.query_start_loc.tolist() == [0, 3, 4]
    assert metadata.seq_lens.tolist() == [6, 1] == list(metadata.context_lens)
    assert metadata.block_tables[0].tolist() == [5, 2]
    assert metadata.block_tables[1, 0] == 7
    assert metadata.query_lens == (3, 1)


def test_backend_is_chosen_by_name() -> None:
    assert get_backend("auto", CPU).name == "torch"
    assert get_backend("reference", CPU).name == "reference"
    with pytest.raises(InvalidParameterError, match=r"'flash' is not one of: auto, reference, torch"):
        get_backend("flash", CPU)
