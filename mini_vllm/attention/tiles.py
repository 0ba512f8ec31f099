"""How a packed batch is cut into pieces of work for the fast kernel: tiles of queries over spans of keys.

    request of 5 queries, 900 keys, split after 512:       row   queries  position  request  keys           partial
        short: the queries see two spans of keys      ->    0       5        895        0     [0, 512)        0
                                                             0       5        895        0     [512, 900)      1
    request of 200 queries, 200 keys (64 a tile):      ->    5      64          0        1     [0, 64)        -1
                                                            69      64         64        1     [0, 128)       -1 ...

Requests of few queries (decodes above all) leave most of a GPU idle if one program walks all keys, so their keys are
split: each span is a tile of its own, its result a partial one, and a merge makes one of them (flash-decoding, Dao et
al. 2023). Longer chunks are cut along their queries only.

Law: how a request is cut depends on its own lengths and never on the batch, so that its result does not, bit for bit.
The cut is made on the host, which knows the lengths, once a step for all layers that attend alike, and goes to the
device in one copy.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mini_vllm.attention.metadata import Array, AttentionMetadata, ragged, to_device

SPLIT = 512  # keys of a partial result, or a multiple of it for the longest requests
MAX_SPLITS = 64  # of a request: 8 KV heads make 512 programs of it, several for every multiprocessor of a large GPU
# Rows of 32 and 16 bytes, so that every table begins at a multiple of 16 bytes, one behind the other: Triton compiles
# a kernel again for a pointer that does not.
TILE_COLUMNS = 8  # first row, queries, first position, request, first key, end of the keys, partial or -1, nothing
MERGE_COLUMNS = 4  # first row, queries, first partial, partials


class Tiles(NamedTuple):
    """The work of one step. A row of tiles is TILE_COLUMNS int32, a row of merges MERGE_COLUMNS."""

    short_tiles: Tensor  # [n, TILE_COLUMNS]: requests whose queries fill one tile at most, by spans of their keys
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
) -> Tiles:
    """Cut a batch.

    short_queries: requests of up to so many queries are split by keys. chunk_queries: queries of a tile of longer ones.
    key_steps: keys come to a short tile and to a chunk's in steps of so many, from a multiple of it; divisors of SPLIT.
    """
    query_lens, seq_lens = metadata.query_lens_cpu, metadata.seq_lens_cpu
    num_computed_tokens = seq_lens - query_lens
    first_rows = np.cumsum(query_lens) - query_lens
    is_short = (query_lens > 0) & (query_lens <= short_queries)
    window = sliding_window or int(seq_lens.max(initial=0))  # a window over the whole sequence hides nothing

    requests = np.flatnonzero(is_short)
    first, end, num_queries = num_computed_tokens[requests], seq_lens[requests], query_lens[requests]
    begin = np.maximum(first - window + 1, 0)
    split = SPLIT * np.maximum(-(-end // (SPLIT * MAX_SPLITS)), 1)
    num_spans = np.maximum(-(-end // split) - begin // split, 1)  # a padded request of no keys still has a result: 0
    owner, span = ragged(num_spans)
    span_begin = (begin // split)[owner] * split[owner] + span * split[owner]
    partial = np.cumsum(num_spans[owner] > 1) - 1
    short_tiles = columns(
        first_rows[requests][owner],
        num_queries[owner],
        first[owner],
        requests[owner],
        np.maximum(span_begin, begin[owner] // key_steps[0] * key_steps[0]),
        np.minimum(span_begin + split[owner], end[owner]),
        np.where(num_spans[owner] > 1, partial, -1),
        np.zeros_like(partial),
    )
    is_merged = num_spans > 1
    merged_spans = num_spans[is_merged]
    merges = columns(
        first_rows[requests][is_merged], num_queries[is_merged], np.cumsum(merged_spans) - merged_spans, merged_spans
    )

    requests = np.flatnonzero(query_lens > short_queries)
    owner, tile = ragged(-(-query_lens[requests] // chunk_queries))
    chunk = requests[owner]
    offset = tile * chunk_queries
    num_queries = np.minimum(query_lens[chunk] - offset, chunk_queries)
    first = num_computed_tokens[chunk] + offset
    begin = np.maximum(first - window + 1, 0) // key_steps[1] * key_steps[1]
    end = first + num_queries
    no_partial, nothing = np.full_like(chunk, -1), np.zeros_like(chunk)
    chunk_tiles = columns(first_rows[chunk] + offset, num_queries, first, chunk, begin, end, no_partial, nothing)
    chunk_tiles = chunk_tiles[np.argsort(begin - end, kind="stable")]  # the longest first: the last to finish are short

    short, chunks, merge = upload((short_tiles, chunk_tiles, merges), metadata.block_tables.device)
    return Tiles(
        short,
        chunks,
        merge,
        num_partials=int(merged_spans.sum()),
        num_rows=int(query_lens.sum()),
        max_short_queries=int(query_lens[is_short].max(initial=1)),
    )


def columns(*values: Array) -> npt.NDArray[np.int32]:
    """Arrays of one length as the columns of a table."""
    return np.stack(values, axis=1).astype(np.int32)


def upload(tables: tuple[npt.NDArray[np.int32], ...], device: torch.device) -> list[Tensor]:
    """The tables as tensors on the device, after one copy."""
    flat = to_device(np.concatenate([table.ravel() for table in tables]), device)
    pieces = torch.split(flat, [table.size for table in tables])
    return [piece.view(table.shape) for piece, table in zip(pieces, tables, strict=True)]
