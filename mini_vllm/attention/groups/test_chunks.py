"""A layer whose tokens see their own chunk: on every rung what one query after the other gives."""

import pytest
import torch

from mini_vllm.attention import AttentionMetadata, AttentionSpec, PackedRequest, PagedAttention
from mini_vllm.attention.groups.chunks import ChunkedBatch
from mini_vllm.attention.registry import get_backend, why_not
from mini_vllm.errors import InvalidParameterError

CPU = torch.device("cpu")
CHUNK, SIZE = 8, 4
SPEC = AttentionSpec(4, 2, 16, 0.25, attention_chunk_size=CHUNK)


def test_each_chunk_becomes_a_request() -> None:
    tables = [10, 11, 12, 13], [20, 21, 22, 23], [30, 31], [40]
    requests = zip(tables, (3, 5, 7, 2), (11, 1, 1, 0), strict=True)
    batch = AttentionMetadata.pack([PackedRequest(*each) for each in requests], SIZE, CPU)
    chunked = ChunkedBatch(batch, CHUNK).with_tables(batch)
    assert chunked.query_lens_cpu.tolist() == [5, 6, 1, 1, 0]
    assert chunked.seq_lens_cpu.tolist() == chunked.seq_lens.tolist() == [8, 6, 6, 8, 2]
    assert chunked.query_start_loc.tolist() == [0, 5, 11, 12, 13, 13]
    assert chunked.block_tables[:4].tolist() == [[10, 11], [12, 13], [20, 21], [30, 31]]
    assert chunked.block_tables[4, 0] == 40
    assert chunked.slot_mapping is batch.slot_mapping


def test_a_chunk_that_begins_inside_a_block_is_refused() -> None:
    batch = AttentionMetadata.pack([PackedRequest([1, 2], 5, 1)], SIZE, CPU)
    with pytest.raises(InvalidParameterError, match=r"block_size is 4, it must divide .* 6"):
        ChunkedBatch(batch, 6)


@pytest.mark.parametrize(
    "name",
    [
        "reference", "torch", "c",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("triton-simple", "triton")),
    ],
)  # fmt: skip
def test_every_rung_sees_its_own_chunk_alone(name: str) -> None:
    """All slots that no query may see are NaN."""
    if reason := why_not(name, CPU):
        pytest.skip(reason)
    backend = get_backend(name, CPU)
    torch.manual_seed(3)
    spans = [(0, 19), (5, 1), (7, 1), (8, 1), (14, 9), (31, 1)]
    starts = [sum(sum(span) for span in spans[:i]) for i in range(len(spans))]
    num_blocks = [-(-sum(span) // SIZE) for span in spans]
    firsts = [1 + sum(num_blocks[:i]) for i in range(len(spans))]
    batch = AttentionMetadata.pack(
        [
            PackedRequest(range(first, first + n), *span)
            for first, n, span in zip(firsts, num_blocks, spans, strict=True)
        ],
        SIZE,
        CPU,
    )
    keys, values = (torch.randn(starts[-1] + 32, 2, 16) for _ in range(2))
    shape = [1 + sum(num_blocks), SIZE, 2, 16]
    memory = [[shape[dim] for dim in backend.stride_order] for _ in range(2)]
    order = [backend.stride_order.index(dim) for dim in range(4)]
    caches = [torch.full(each, torch.nan).permute(order) for each in memory]
    rows, expected = [], []
    query = torch.randn(len(batch.positions), 4, 16)
    for start, first, (computed, n) in zip(starts, firsts, spans, strict=True):
        for position in range(computed // CHUNK * CHUNK, computed + n):
            block, offset = first + position // SIZE, position % SIZE
            for cache, new in zip(caches, (keys, values), strict=True):
                if position < computed:
                    cache[block, offset] = new[start + position]
        for position in range(computed, computed + n):
            seen = slice(start + position // CHUNK * CHUNK, start + position + 1)
            grouped = query[len(rows)].view(2, 2, 16)
            scores = torch.einsum("hgd,nhd->hgn", grouped, keys[seen]) * SPEC.scale
            mixed = torch.einsum("hgn,nhd->hgd", scores.softmax(-1), values[seen])
            rows.append(start + position)
            expected.append(mixed.view(4, 16))
    attend = PagedAttention(backend, [tuple(caches)], batch, [SPEC])
    found = attend(0, query, keys[rows], values[rows])
    torch.testing.assert_close(found, torch.stack(expected), atol=1e-5, rtol=1e-5)
