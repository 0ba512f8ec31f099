"""Attention over a paged KV cache, the fast kernels: a tile of queries, a loop over keys, an online
softmax.

One kernel does prefill chunks, decodes and everything between. A program takes one tile of the step
(tiles.py) and one KV head; the query heads that share it are packed into the tile's rows, so that
keys and values are read once for all of them. Where a request's keys were split over several
programs, a second kernel merges the partial results.

Sources: FlashAttention-2 (Dao 2023) for the loop, flash-decoding (Dao et al. 2023) for the split,
vLLM's kernel_unified_attention (vllm/v1/attention/ops/triton_unified_attention.py) for the packing
of a group into one tile.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from mini_vllm.attention.metadata import AttentionSpec
from mini_vllm.attention.numerics import LOG2E, launch, matmul, round_to
from mini_vllm.attention.tiles import MERGE_COLUMNS, TILE_COLUMNS, Tiles

MERGE_STEP = 16  # partial results that the merge takes at a time


class TileShape(NamedTuple):
    """A tile of the attention kernel: rows (query x head of the group), keys a step, and how it is
    compiled.
    """

    rows: int
    keys: int
    num_warps: int
    num_stages: int  # steps whose keys and values are on their way at the same time

    def queries(self, group_size: int) -> int:
        """How many queries of group_size heads each the tile holds."""
        return self.rows // group_size


@triton.jit(do_not_specialize=["table_stride", "partial_rows"])
def attention_kernel(
    output_ptr, partial_ptr, partial_lse_ptr, query_ptr, key_cache_ptr, value_cache_ptr,
    block_tables_ptr, tiles_ptr, sinks_ptr,
    scale, query_stride, table_stride, partial_rows,
    NUM_KV_HEADS: tl.constexpr, GROUP_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    WINDOW: tl.constexpr, BY_SPANS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """The queries of one tile, all heads of one group, over the tile's span of keys.

    Grid (tiles, NUM_KV_HEADS). Row r of the tile [BLOCK_M, BLOCK_D] is head r % GROUP_SIZE of the
    group and query r // GROUP_SIZE; keys come in tiles [BLOCK_N, BLOCK_D]; BLOCK_D is the power of
    two that holds HEAD_DIM. query [T, NUM_KV_HEADS * GROUP_SIZE, HEAD_DIM], rows query_stride
    elements apart; output the same, contiguous; caches [num_blocks, BLOCK_SIZE, NUM_KV_HEADS,
    HEAD_DIM] contiguous; all of one dtype, sums in float32. block_tables [B, table_stride] and
    tiles [n, COLUMNS] int32. sinks [NUM_KV_HEADS * GROUP_SIZE] float32, or None. WINDOW: 0 for
    none. BY_SPANS: a tile with a partial index stores there, not in output: partial [n,
    NUM_KV_HEADS, partial_rows, HEAD_DIM] float32, the weighted mean of its span, and partial_lse
    [n, NUM_KV_HEADS, partial_rows] float32, the base-2 logarithm of the sum of its exponentials.
    Bytes moved: 2 * HEAD_DIM * itemsize for every key of the span, and the queries' twice.
    Operations: 4 * HEAD_DIM for every pair of row and key in sight.
    """
    tile_ptr = tiles_ptr + tl.program_id(0) * COLUMNS
    kv_head = tl.program_id(1)
    first_row, num_queries, first_position = read_queries(tile_ptr)
    table_ptr = block_tables_ptr + tl.load(tile_ptr + 3).to(tl.int64) * table_stride
    key_begin = tl.load(tile_ptr + 4)
    key_end = tl.load(tile_ptr + 5)

    rows = tl.arange(0, BLOCK_M)
    query_index = rows // GROUP_SIZE
    head = kv_head * GROUP_SIZE + rows % GROUP_SIZE
    dims = tl.arange(0, BLOCK_D)
    is_row = (query_index < num_queries)[:, None] & (dims < HEAD_DIM)[None, :]
    query = load_rows(
        query_ptr, first_row + query_index, head, dims, is_row, query_stride, HEAD_DIM
    )
    result, lse = attend_span(
        query, first_position, query_index,
        key_cache_ptr + kv_head * HEAD_DIM, value_cache_ptr + kv_head * HEAD_DIM, table_ptr,
        key_begin, key_end, scale,
        NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE, WINDOW, BLOCK_M, BLOCK_N, BLOCK_D,
        HAS_PLAIN=not BY_SPANS and WINDOW == 0,
    )  # fmt: skip
    partial = tl.load(tile_ptr + 6)
    if BY_SPANS and partial >= 0:
        first_place = (partial.to(tl.int64) * NUM_KV_HEADS + kv_head) * partial_rows
        store_partial(
            partial_ptr, partial_lse_ptr, first_place,
            result, lse, query_index < num_queries, is_row, HEAD_DIM, BLOCK_M,
            BLOCK_D,
        )  # fmt: skip
    else:
        store_rows(
            output_ptr,
            result,
            lse,
            sinks_ptr,
            first_row + query_index,
            head,
            dims,
            is_row,
            NUM_KV_HEADS * GROUP_SIZE,
            HEAD_DIM,
        )


@triton.jit
def share_of_keys(lse, sinks_ptr, heads):
    """What the keys weigh beside the sinks of these heads; lse: the base-2 logarithm of the sum of
    their exponentials, -inf where there is none.
    """
    return 1.0 / (1.0 + tl.exp2(tl.load(sinks_ptr + heads) * LOG2E - lse))


@triton.jit
def read_queries(tile_ptr):
    """What a row of tiles says of the queries: the first one's row, how many, the first one's
    position.
    """
    return tl.load(tile_ptr).to(tl.int64), tl.load(tile_ptr + 1), tl.load(tile_ptr + 2)


@triton.jit
def load_rows(query_ptr, tokens, head, dims, is_row, query_stride, HEAD_DIM: tl.constexpr):
    """The queries [BLOCK_M, BLOCK_D] of these tokens and heads [BLOCK_M], 0 where there is none."""
    at = tokens * query_stride + head * HEAD_DIM
    return tl.load(query_ptr + at[:, None] + dims[None, :], mask=is_row, other=0.0)


@triton.jit
def store_rows(
    output_ptr, result, lse, sinks_ptr, tokens, head, dims, is_row,
    NUM_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
):  # fmt: skip
    """The result [BLOCK_M, BLOCK_D] as the output of these tokens and heads [BLOCK_M]."""
    if sinks_ptr is not None:
        result *= share_of_keys(lse, sinks_ptr, head)[:, None]
    to = (tokens * NUM_HEADS + head) * HEAD_DIM
    output = round_to(result, output_ptr.dtype.element_ty)
    tl.store(output_ptr + to[:, None] + dims[None, :], output, mask=is_row)


@triton.jit
def store_partial(
    partial_ptr, partial_lse_ptr, first_place, result, lse, is_query, is_row,
    HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The result of a span, and what it weighs; first_place is that of the tile's first row."""
    to = first_place + tl.arange(0, BLOCK_M)
    tl.store(partial_lse_ptr + to, lse, mask=is_query)
    tl.store(
        partial_ptr + to[:, None] * HEAD_DIM + tl.arange(0, BLOCK_D)[None, :], result, mask=is_row
    )


@triton.jit
def attend_span(
    query, first_position, query_index, key_ptr, value_ptr, table_ptr, begin, end, scale,
    NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, HAS_PLAIN: tl.constexpr,
):  # fmt: skip
    """Every row over the keys [begin, end): their mean value, and the base-2 logarithm of the sum
    of their exponentials, -inf for a row that saw nothing.

    HAS_PLAIN: most of the keys are seen by all queries, so these are taken without masks.
    """
    positions = first_position + query_index
    maximum = tl.full([BLOCK_M], -float("inf"), tl.float32)
    normaliser = tl.zeros([BLOCK_M], tl.float32)
    weighted_sum = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    masked_from = begin
    if HAS_PLAIN:
        masked_from = tl.maximum((first_position + 1) // BLOCK_N * BLOCK_N, begin)
        maximum, normaliser, weighted_sum = attend_keys(
            maximum, normaliser, weighted_sum, query, positions,
            key_ptr, value_ptr, table_ptr, begin, masked_from, scale,
            NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE, WINDOW, BLOCK_N, BLOCK_D, MASKED=False,
        )  # fmt: skip
    maximum, normaliser, weighted_sum = attend_keys(
        maximum, normaliser, weighted_sum, query, positions,
        key_ptr, value_ptr, table_ptr, masked_from, end, scale,
        NUM_KV_HEADS, HEAD_DIM, BLOCK_SIZE, WINDOW, BLOCK_N, BLOCK_D, MASKED=True,
    )  # fmt: skip
    divisor = tl.where(normaliser == 0.0, 1.0, normaliser)  # 0 for a row that saw nothing
    return weighted_sum / divisor[:, None], maximum + tl.log2(divisor)


@triton.jit
def attend_keys(
    maximum, normaliser, weighted_sum, query, positions, key_ptr, value_ptr, table_ptr, begin, end,
    scale,
    NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    WINDOW: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """Take the keys [begin, end) into the online softmax of every row; begin is a multiple of
    BLOCK_N.

    Scores are kept times LOG2E, so that exp2 serves. Not MASKED: every row sees all of the keys,
    and end is a multiple of BLOCK_N as well.
    """
    dims = tl.arange(0, BLOCK_D)
    for start in tl.range(begin, end, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        numbers = slots_of(table_ptr, start, keys, end, BLOCK_SIZE, BLOCK_N) * (
            NUM_KV_HEADS * HEAD_DIM
        )

        key_tile = gather(
            key_ptr + numbers[None, :] + dims[:, None], keys[None, :] < end, dims[:,
            None] < HEAD_DIM,
            MASKED, BLOCK_D != HEAD_DIM,
        )  # fmt: skip
        scores = matmul(query, key_tile)
        score_scale = scale * LOG2E
        if MASKED:
            scores = tl.where(is_visible(keys, positions, WINDOW), scores, -float("inf"))

        # score * score_scale - maximum is one instruction an element; so the product itself is
        # never formed.
        new_maximum = tl.maximum(maximum, tl.max(scores, axis=1) * score_scale)
        shift = new_maximum
        if MASKED:  # a row may have seen nothing yet: -inf minus -inf would be NaN
            shift = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        correction = tl.exp2(maximum - shift)
        weights = tl.exp2(scores * score_scale - shift[:, None])
        normaliser = normaliser * correction + tl.sum(weights, axis=1)
        value_tile = gather(
            value_ptr + numbers[:, None] + dims[None, :], keys[:, None] < end, dims[None,
            :] < HEAD_DIM,
            MASKED, BLOCK_D != HEAD_DIM,
        )  # fmt: skip
        weighted_sum = weighted_sum * correction[:, None] + matmul(
            round_to(weights, value_tile.dtype), value_tile
        )
        maximum = new_maximum
    return maximum, normaliser, weighted_sum


@triton.jit
def is_visible(keys, positions, WINDOW: tl.constexpr):
    """Which keys [BLOCK_N] each row [BLOCK_M] sees.

    A key behind the end lies behind the position of every row, too.
    """
    visible = keys[None, :] <= positions[:, None]
    if WINDOW > 0:
        visible &= keys[None, :] > positions[:, None] - WINDOW
    return visible


@triton.jit
def slots_of(table_ptr, start, keys, end, BLOCK_SIZE: tl.constexpr, BLOCK_N: tl.constexpr):
    """The slots [BLOCK_N] in the cache of the keys that begin at start, a multiple of BLOCK_N;
    int64.
    """
    if BLOCK_SIZE % BLOCK_N == 0:  # a step of keys lies within one block
        block_ids = tl.load(table_ptr + start // BLOCK_SIZE).to(tl.int64)
        slots = block_ids * BLOCK_SIZE + start % BLOCK_SIZE + tl.arange(0, BLOCK_N)
    else:
        block_ids = tl.load(table_ptr + keys // BLOCK_SIZE, mask=keys < end, other=0).to(tl.int64)
        slots = block_ids * BLOCK_SIZE + keys % BLOCK_SIZE
    return slots


@triton.jit
def gather(ptrs, is_key, is_dim, MASK_KEYS: tl.constexpr, MASK_DIMS: tl.constexpr):
    """What the pointers show, 0 where a mask that is needed hides it: a masked load costs more than
    a plain one.
    """
    if MASK_KEYS and MASK_DIMS:
        return tl.load(ptrs, mask=is_key & is_dim, other=0.0)
    if MASK_KEYS:
        return tl.load(ptrs, mask=is_key, other=0.0)
    if MASK_DIMS:
        return tl.load(ptrs, mask=is_dim, other=0.0)
    return tl.load(ptrs)


@triton.jit(do_not_specialize=["partial_rows"])
def merge_kernel(
    output_ptr, partial_ptr, partial_lse_ptr, merges_ptr, sinks_ptr, partial_rows,
    NUM_KV_HEADS: tl.constexpr, GROUP_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_P: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """One row of a request whose keys were split: the mean of its partial results, weighted by what
    each span weighs.

    Grid (merges, NUM_KV_HEADS * partial_rows). Partial results come in tiles [BLOCK_P, BLOCK_D], in
    order, so that the result depends on nothing but them. Arguments as for attention_kernel; merges
    [n, COLUMNS] int32. Bytes moved: 4 * (HEAD_DIM + 1) for every partial result of the row.
    """
    merge_ptr = merges_ptr + tl.program_id(0) * COLUMNS
    kv_head = tl.program_id(1) // partial_rows
    row = tl.program_id(1) % partial_rows
    num_queries = tl.load(merge_ptr + 1)
    query_index = row // GROUP_SIZE
    if query_index < num_queries:
        first_partial = tl.load(merge_ptr + 2).to(tl.int64)
        num_partials = tl.load(merge_ptr + 3)
        dims = tl.arange(0, BLOCK_D)
        result, lse = merge_partials(
            partial_ptr, partial_lse_ptr, first_partial, num_partials, partial_rows, kv_head, row,
            dims,
            NUM_KV_HEADS, HEAD_DIM, BLOCK_D, BLOCK_P,
        )  # fmt: skip
        head = kv_head * GROUP_SIZE + row % GROUP_SIZE
        if sinks_ptr is not None:
            result *= share_of_keys(lse, sinks_ptr, head)
        numbers = (
            (tl.load(merge_ptr).to(tl.int64) + query_index) * NUM_KV_HEADS * GROUP_SIZE + head
        ) * HEAD_DIM
        tl.store(
            output_ptr + numbers + dims,
            round_to(result, output_ptr.dtype.element_ty),
            mask=dims < HEAD_DIM,
        )


@triton.jit
def merge_partials(
    partial_ptr, partial_lse_ptr, first_partial, num_partials, partial_rows, kv_head, row, dims,
    NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_P: tl.constexpr,
):  # fmt: skip
    """The weighted mean [BLOCK_D] of one row's partial results, by an online softmax over their
    spans, and the base-2 logarithm of what it was divided by.
    """
    maximum, normaliser = -float("inf"), 0.0
    weighted_sum = tl.zeros([BLOCK_D], tl.float32)
    for start in range(0, num_partials, BLOCK_P):
        index = start + tl.arange(0, BLOCK_P)
        numbers = ((first_partial + index) * NUM_KV_HEADS + kv_head) * partial_rows + row
        is_partial = index < num_partials
        lse = tl.load(partial_lse_ptr + numbers, mask=is_partial, other=-float("inf"))
        partial = tl.load(
            partial_ptr + numbers[:, None] * HEAD_DIM + dims[None, :],
            mask=is_partial[:, None] & (dims < HEAD_DIM)[None, :],
            other=0.0,
        )
        new_maximum = tl.maximum(maximum, tl.max(lse, axis=0))
        shift = tl.where(new_maximum == -float("inf"), 0.0, new_maximum)
        correction = tl.exp2(maximum - shift)
        weights = tl.exp2(lse - shift)
        normaliser = normaliser * correction + tl.sum(weights, axis=0)
        weighted_sum = weighted_sum * correction + tl.sum(weights[:, None] * partial, axis=0)
        maximum = new_maximum
    divisor = tl.where(normaliser > 0.0, normaliser, 1.0)
    return weighted_sum / divisor, maximum + tl.log2(divisor)


class TilePlan(NamedTuple):
    """One step's work on the device: the batch cut into tiles, and the shapes of tile that it was
    cut for.
    """

    spec: AttentionSpec
    shapes: tuple[TileShape, TileShape]  # of short requests and of chunks
    tiles: Tiles
    block_tables: Tensor  # [B, max_blocks] int32


def paged_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    plan: TilePlan,
    output: Tensor | None = None,
) -> Tensor:
    """Attention of query [T, num_heads, head_dim] over the cache, as the plan cuts it: at most
    three launches.

    output: where to write, contiguous and like query; rows that no request owns become 0.
    """
    spec, shapes, tiles, block_tables = plan
    num_kv_heads, head_dim = spec.num_kv_heads, spec.head_dim
    if output is None:
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    output[tiles.num_rows :] = 0
    partial_rows = tiles.max_short_queries * spec.group_size
    places = tiles.num_partials, num_kv_heads, partial_rows
    partial = output.new_empty(*places, head_dim, dtype=torch.float32)
    partial_lse = output.new_empty(places, dtype=torch.float32)
    heads = {"NUM_KV_HEADS": num_kv_heads, "GROUP_SIZE": spec.group_size, "HEAD_DIM": head_dim}
    block_d = max(16, triton.next_power_of_2(head_dim))
    for table, shape, by_spans in (
        (tiles.chunk_tiles, shapes[1], False),
        (tiles.short_tiles, shapes[0], True),
    ):
        if len(table):
            launch(
                attention_kernel, (len(table), num_kv_heads),
                output, partial, partial_lse, query, key_cache, value_cache, block_tables, table,
                spec.sinks,
                spec.scale, query.stride(0), block_tables.stride(0), partial_rows,
                **heads, BLOCK_SIZE=key_cache.shape[1], WINDOW=spec.sliding_window or 0,
                BY_SPANS=by_spans, BLOCK_M=shape.rows, BLOCK_N=shape.keys, BLOCK_D=block_d,
                COLUMNS=TILE_COLUMNS,
                num_warps=shape.num_warps, num_stages=shape.num_stages,
            )  # fmt: skip
    if len(tiles.merges):
        launch(
            merge_kernel, (len(tiles.merges), num_kv_heads * partial_rows),
            output, partial, partial_lse, tiles.merges, spec.sinks, partial_rows,
            **heads, BLOCK_D=block_d, BLOCK_P=MERGE_STEP, COLUMNS=MERGE_COLUMNS,
        )  # fmt: skip
    return output
