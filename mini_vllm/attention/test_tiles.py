"""The cut of a step: every key that a row sees is in exactly one of its tiles, and a cut depends on
nobody else.
"""

import collections
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from mini_vllm.attention import AttentionMetadata, PackedRequest, tiles
from mini_vllm.attention.tiles import Tiles, make_tiles

Span = tuple[int, int]  # cached tokens, new tokens
SPANS = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 15, 16, 63, 64, 65, 511, 512, 513, 1024, 40_000]),
        st.integers(0, 150),
    ),
    max_size=6,
)
OPTIONS = {"short_queries": 8, "chunk_queries": 32, "key_steps": (64, 32)}


def pack(spans: list[Span]) -> AttentionMetadata:
    requests = [PackedRequest(range(-(-(start + n) // 16)), start, n) for start, n in spans]
    return AttentionMetadata.pack(requests, 16, torch.device("cpu"))


def keys_by_row(cut: Tiles) -> dict[int, list[range]]:
    """For each row of the batch, the spans of keys that it meets; checks what a tile may be on the
    way.
    """
    spans = collections.defaultdict(list)
    for table, most_queries, key_step in ((cut.short_tiles, 8, 64), (cut.chunk_tiles, 32, 32)):
        for first_row, num_queries, _, _, begin, end, *_ in table.tolist():
            assert 1 <= num_queries <= most_queries
            assert begin % key_step == 0
            for row in range(first_row, first_row + num_queries):
                spans[row].append(range(begin, end))
    return spans


@settings(max_examples=200, deadline=None)
@given(spans=SPANS, window=st.none() | st.integers(1, 700))
@example(spans=[(0, 0), (40_000, 1), (0, 0), (511, 1), (512, 1)], window=None)
@pytest.mark.slow
def test_every_visible_key_is_in_exactly_one_tile_of_its_row(
    spans: list[Span], window: int | None
) -> None:
    cut = make_tiles(pack(spans), sliding_window=window, **OPTIONS)
    keys = keys_by_row(cut)
    assert sorted(keys) == list(range(cut.num_rows)) == list(range(sum(n for _, n in spans)))
    rows = iter(range(cut.num_rows))
    for start, num_tokens in spans:
        for position in range(start, start + num_tokens):
            first = 0 if window is None else max(0, position - window + 1)
            met = sorted(keys[next(rows)], key=lambda span: span.start)
            assert met[0].start <= first
            assert met[-1].stop > position
            assert all(a.stop == b.start for a, b in itertools.pairwise(met))


@settings(max_examples=200, deadline=None)
@given(spans=SPANS, window=st.none() | st.integers(1, 700))
def test_tiles_know_their_request(spans: list[Span], window: int | None) -> None:
    cut = make_tiles(pack(spans), sliding_window=window, **OPTIONS)
    starts = [sum(n for _, n in spans[:i]) for i in range(len(spans))]
    for table in (cut.short_tiles, cut.chunk_tiles):
        for first_row, num_queries, first_position, request, *_ in table.tolist():
            start, num_tokens = spans[request]
            assert first_position - start == first_row - starts[request]
            assert 0 <= first_position - start <= num_tokens - num_queries


@settings(max_examples=200, deadline=None)
@given(spans=SPANS, window=st.none() | st.integers(1, 700))
@pytest.mark.slow
def test_partial_results_are_merged_once_and_in_order(
    spans: list[Span], window: int | None
) -> None:
    cut = make_tiles(pack(spans), sliding_window=window, **OPTIONS)
    partials = [
        (row, partial, begin)
        for row, _, _, _, begin, _, partial, _ in cut.short_tiles.tolist()
        if partial >= 0
    ]
    merged = []
    for first_row, num_queries, first_partial, num_partials in cut.merges.tolist():
        mine = [(partial, begin) for row, partial, begin in partials if row == first_row]
        assert [partial for partial, _ in mine] == list(
            range(first_partial, first_partial + num_partials)
        )
        assert mine == sorted(mine, key=lambda each: each[1])  # in the order of their keys
        assert 1 < num_partials <= tiles.MAX_SPLITS + 1
        assert num_queries <= cut.max_short_queries
        merged += [partial for partial, _ in mine]
    assert merged == [partial for _, partial, _ in partials] == list(range(cut.num_partials))


def rows_of(table: Tensor, request: int, first_row: int) -> list[list[int]]:
    """A request's tiles, as they would be were it alone."""
    return [
        [row - first_row, n, position, begin, end]
        for row, n, position, r, begin, end, *_ in table.tolist()
        if r == request
    ]


@settings(max_examples=100, deadline=None)
@given(spans=SPANS.filter(bool), window=st.none() | st.integers(1, 700))
def test_law_a_request_is_cut_as_if_it_were_alone(spans: list[Span], window: int | None) -> None:
    together = make_tiles(pack(spans), sliding_window=window, **OPTIONS)
    for request, span in enumerate(spans):
        alone = make_tiles(pack([span]), sliding_window=window, **OPTIONS)
        first_row = sum(n for _, n in spans[:request])
        for name in ("short_tiles", "chunk_tiles"):
            cut = sorted(rows_of(getattr(together, name), request, first_row))
            assert cut == sorted(rows_of(getattr(alone, name), 0, 0))


@settings(max_examples=50, deadline=None)
@given(
    spans=st.lists(st.tuples(st.integers(0, 1500), st.integers(1, 80)), min_size=1, max_size=6),
    more=st.tuples(st.integers(0, 40), st.integers(0, 2)),
    window=st.none() | st.integers(1, 700),
)
def test_a_bound_has_room_for_every_batch_that_it_stands_for(
    spans: list[Span], more: tuple[int, int], window: int | None
) -> None:
    """With all rows that pad as one request more, whose sequence has no tokens."""
    num_rows, num_reqs = sum(n for _, n in spans) + more[0], len(spans) + more[1]
    largest = pack([(1536, 0)] * num_reqs + [(0, num_rows)])
    bound = replace(
        largest,
        query_lens_cpu=largest.query_lens_cpu[:num_reqs],
        seq_lens_cpu=np.full(num_reqs, 1537),
        is_bound=True,
    )
    room = make_tiles(bound, sliding_window=window, **OPTIONS)
    batch = pack(spans)
    pads = {
        "query_lens_cpu": np.append(batch.query_lens_cpu, more[0]),
        "seq_lens_cpu": np.append(batch.seq_lens_cpu, 0),
    }
    cut = make_tiles(replace(batch, **pads), sliding_window=window, **OPTIONS)
    assert room.num_rows == cut.num_rows == num_rows
    for name in ("short_tiles", "chunk_tiles", "merges"):
        assert len(getattr(cut, name)) <= len(getattr(room, name))
    for name in ("num_partials", "max_short_queries"):
        assert getattr(cut, name) <= getattr(room, name)
    of_pads = [row for row in cut.chunk_tiles.tolist() if row[3] == len(spans)]
    assert all(begin >= end for *_, begin, end, _, _ in of_pads)


def test_long_requests_are_split_into_a_bounded_number_of_spans() -> None:
    for length, num_spans in (
        (1, 1),
        (512, 1),
        (513, 2),
        (5_000, 10),
        (32_768, 64),
        (32_769, 33),
        (1_000_000, 64),
    ):
        cut = make_tiles(pack([(length - 1, 1)]), sliding_window=None, **OPTIONS)
        assert len(cut.short_tiles) == num_spans
        assert cut.num_partials == (num_spans if num_spans > 1 else 0)
        assert num_spans <= tiles.MAX_SPLITS


def test_the_longest_chunks_come_first() -> None:
    cut = make_tiles(pack([(0, 64), (300, 64)]), sliding_window=None, **OPTIONS)
    lengths = [end - begin for *_, begin, end, _, _ in cut.chunk_tiles.tolist()]
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) == 4


def test_a_batch_without_tokens_has_no_work() -> None:
    for spans in ([], [(0, 0)]):
        cut = make_tiles(pack(spans), sliding_window=None, **OPTIONS)
        assert (len(cut.short_tiles), len(cut.chunk_tiles), len(cut.merges), cut.num_rows) == (
            0,
            0,
            0,
            0,
        )
