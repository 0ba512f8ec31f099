"""How a packed batch is cut into pieces of work for the fast kernel: tiles of queries over spans of
keys.

    request of 5 queries, 900 keys, split after 512:
        row  queries  position  request  keys         partial
        0    5        895       0        [0, 512)     0         the queries see two
        0    5        895       0        [512, 900)   1         spans of keys
    request of 200 queries, 200 keys (64 a tile):
        5    64       0         1        [0, 64)      -1
        69   64       64        1        [0, 128)     -1        ...

Requests of few queries (decodes above all) leave most of a GPU idle if one program walks all keys,
so their keys are split: each span is a tile of its own, its result a partial one, and a merge makes
one of them (flash-decoding, Dao et al. 2023). Longer chunks are cut along their queries only.

Law: how a request is cut depends on its own lengths and never on the batch, so that its result does
not, bit for bit. The cut is made on the host, which knows the lengths, once a step for all layers
that attend alike, and goes to the device in one copy.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mini_vllm.attention.metadata import Array, AttentionMetadata, ragged, to_device

SPLIT = 512  # keys of a partial result, or a multiple of it for the longest requests
# of a request: 8 KV heads make 512 programs of it, several for every multiprocessor of a large GPU
MAX_SPLITS = 64
UNIFORM_STEP = 64  # keys, a multiple of the steps of every kernel
# Rows of 32 and 16 bytes, so that every table begins at a multiple of 16 bytes, one behind the
# other: Triton compiles a kernel again for a pointer that does not.
# first row, queries, first position, request, first key, end of the keys, partial or -1, nothing
TILE_COLUMNS = 8
MERGE_COLUMNS = 4  # first row, queries, first partial, partials
Table = npt.NDArray[np.int32]


class Tiles(NamedTuple):
    """The work of one step. A row of tiles is TILE_COLUMNS int32, a row of merges MERGE_COLUMNS."""

    # [n, TILE_COLUMNS]: requests whose queries fill one tile at most, by spans of their keys
    short_tiles: Tensor
    chunk_tiles: Tensor  # [n, TILE_COLUMNS]: pieces of longer chunks, the longest work first
    merges: Tensor  # [n, MERGE_COLUMNS]: requests that came out in several partial results
    num_partials: int
    num_rows: int  # rows of the batch that belong to a request
    max_short_queries: int


def make_tiles(
    metadata: AttentionMetadata,
    *,
    short_queries: int,
    chunk_queries: int,
    key_steps: tuple[int, int],
    sliding_window: int | None,
    batch_invariant: bool = False,
) -> Tiles:
    """Cut a batch.

    short_queries: requests of up to so many queries are split by keys. chunk_queries: queries of a
    tile of longer ones. key_steps: keys come to a short tile and to a chunk's in steps of so many,
    from a multiple of it; divisors of SPLIT. batch_invariant: no request is short, and keys come in
    the same steps wherever a tile begins, so that a query has the same sums in any chunk.

    If metadata.is_bound, the tables have room for every batch that it stands for, with one request
    more, of its padding; what they say means nothing.
    """
    if batch_invariant:
        short_queries, key_steps = 0, (SPLIT, max(key_steps[1], UNIFORM_STEP))
    num_rows = int(metadata.query_lens_cpu.sum())
    if metadata.is_bound:  # the most spans, and the most rows of each partial result
        num_rows = len(metadata.slot_mapping)
        longest = np.full_like(metadata.query_lens_cpu, min(short_queries, num_rows))
        metadata = replace(metadata, query_lens_cpu=longest)
    query_lens, seq_lens = metadata.query_lens_cpu, metadata.seq_lens_cpu
    window = sliding_window or int(
        seq_lens.max(initial=0)
    )  # a window over the whole sequence hides nothing
    is_short = (query_lens > 0) & (query_lens <= short_queries)
    short_tiles, merges, num_partials = split_by_keys(
        metadata, np.flatnonzero(is_short), window, key_steps[0]
    )
    chunks = np.flatnonzero(query_lens > short_queries)
    chunk_tiles = split_by_queries(metadata, chunks, window, key_steps[1], chunk_queries)
    if metadata.is_bound:
        num_chunks = min(len(seq_lens) + 1, num_rows // (short_queries + 1))
        num_tiles = num_chunks + (num_rows - num_chunks) // chunk_queries
        chunk_tiles = np.zeros((num_tiles, TILE_COLUMNS), np.int32)
        short_tiles = np.pad(short_tiles, ((0, 1), (0, 0)))
    short, chunk, merge = upload((short_tiles, chunk_tiles, merges), metadata.block_tables.device)
    return Tiles(
        short,
        chunk,
        merge,
        num_partials,
        num_rows,
        max_short_queries=int(query_lens[is_short].max(initial=1)),
    )


def split_by_keys(
    metadata: AttentionMetadata, requests: Array, window: int, key_step: int
) -> tuple[Table, Table, int]:
    """Tiles of short requests by spans of their keys, the merges of those with several, and how
    many partials.
    """
    first_rows, first, num_queries, end = cut_of(metadata, requests)
    begin = np.maximum(first - window + 1, 0)
    split = SPLIT * np.maximum(-(-end // (SPLIT * MAX_SPLITS)), 1)
    # A padded request of no keys still has a result: 0.
    num_spans = np.maximum(-(-end // split) - begin // split, 1)
    owner, span = ragged(num_spans)
    span_begin = (begin // split)[owner] * split[owner] + span * split[owner]
    partial = np.cumsum(num_spans[owner] > 1) - 1
    tiles = columns(
        first_rows[owner],
        num_queries[owner],
        first[owner],
        requests[owner],
        np.maximum(span_begin, begin[owner] // key_step * key_step),
        np.minimum(span_begin + split[owner], end[owner]),
        np.where(num_spans[owner] > 1, partial, -1),
        np.zeros_like(partial),
    )
    is_merged = num_spans > 1
    merged_spans = num_spans[is_merged]
    first_partials = np.cumsum(merged_spans) - merged_spans
    merges = columns(first_rows[is_merged], num_queries[is_merged], first_partials, merged_spans)
    return tiles, merges, int(merged_spans.sum())


def split_by_queries(
    metadata: AttentionMetadata, requests: Array, window: int, key_step: int, chunk_queries: int
) -> Table:
    """Tiles of longer chunks by their queries, each over all the keys that it sees."""
    first_rows, first, num_queries, _ = cut_of(metadata, requests)
    owner, tile = ragged(-(-num_queries // chunk_queries))
    chunk, offset = requests[owner], tile * chunk_queries
    num_queries = np.minimum(num_queries[owner] - offset, chunk_queries)
    first = first[owner] + offset
    begin = np.maximum(first - window + 1, 0) // key_step * key_step
    end = first + num_queries
    no_partial, nothing = np.full_like(chunk, -1), np.zeros_like(chunk)
    tiles = columns(
        first_rows[owner] + offset, num_queries, first, chunk, begin, end, no_partial, nothing
    )
    return tiles[
        np.argsort(begin - end, kind="stable")
    ]  # the longest first: the last to finish are short


def cut_of(metadata: AttentionMetadata, requests: Array) -> tuple[Array, Array, Array, Array]:
    """Of each of the requests: its first row, the position of its first query, its queries, the end
    of its keys.
    """
    query_lens, seq_lens = metadata.query_lens_cpu, metadata.seq_lens_cpu
    num_queries, end = query_lens[requests], seq_lens[requests]
    return (np.cumsum(query_lens) - query_lens)[requests], end - num_queries, num_queries, end


def columns(*values: Array) -> Table:
    """Arrays of one length as the columns of a table."""
    return np.stack(values, axis=1).astype(np.int32)


def upload(tables: tuple[Table, ...], device: torch.device) -> list[Tensor]:
    """The tables as tensors on the device, after one copy."""
    flat = to_device(np.concatenate([table.ravel() for table in tables]), device)
    pieces = torch.split(flat, [table.size for table in tables])
    return [piece.view(table.shape) for piece, table in zip(pieces, tables, strict=True)]
