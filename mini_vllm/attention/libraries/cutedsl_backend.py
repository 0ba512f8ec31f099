"""The rung of CuTe DSL, CUTLASS's language in Python: a decode kernel of its own.

A decode reads every key and value of its request once and does little with them, so the kernel is
made of loads of 16 bytes, several of them in flight, and of sums in registers. A program has one
request, one KV head (of up to MAX_HEADS query heads) and one span of keys. It has some slots: slot
s takes the keys s, s + slots and so on, and each lane of a slot has 8 numbers of a head. What the
slots and then the spans come to is merged as partial results are in flash-decoding (Dao et al.
2023). Batches with chunks go to the Triton rung, and so do rotation and cache write.

Written against nvidia-cutlass-dsl 4.8.1, which compiles the kernels without a GPU, too
(tools/compile_cutedsl.py). docs/api/engine.md says what has run on one.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import cuda.bindings.driver as driver
import cutlass
import torch
from cutlass import cute, memory
from cutlass.cute.runtime import make_ptr
from torch import Tensor

from mini_vllm.attention.libraries.needs import refuse_specs
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec
from mini_vllm.attention.tiles import MAX_SPLITS, SPLIT
from mini_vllm.attention.triton_backend import TritonBackend

HEAD_DIMS = (64, 128, 256)
DTYPES = {torch.float16: cutlass.Float16, torch.bfloat16: cutlass.BFloat16}
MAX_HEADS = 8  # query heads of a program: their sums are in registers
VECTOR = 8  # numbers of a load: 16 bytes
NUM_THREADS = 128
UNROLL = 4  # keys of a slot whose loads are in flight at a time
LOWEST = -1e30  # a maximum of no scores; finite, so that no difference of two is NaN
LOG2E = 1.4426950408889634


class Shape(NamedTuple):
    """What a kernel is compiled for."""

    num_kv_heads: int
    group_size: int
    head_dim: int
    block_size: int
    window: int  # 0 for none

    @property
    def heads(self) -> int:
        """Query heads of a program: a divisor of the group."""
        return max(n for n in range(1, MAX_HEADS + 1) if self.group_size % n == 0)

    @property
    def num_heads(self) -> int:
        return self.num_kv_heads * self.group_size

    @property
    def lanes(self) -> int:
        """Threads of a slot."""
        return self.head_dim // VECTOR

    @property
    def slots(self) -> int:
        """Slots of a program."""
        return NUM_THREADS // self.lanes


@cute.jit
def span_of(end, shape: cutlass.Constexpr):
    """Of a request with that many keys: the first that its query sees, and the keys of a span.

    As in tiles.py, they depend on the request alone.
    """
    begin = cutlass.Int32(0)
    if cutlass.const_expr(shape.window > 0):
        begin = cutlass.max(end - shape.window, 0)
    most = SPLIT * MAX_SPLITS
    return begin, SPLIT * cutlass.max((end + most - 1) // most, 1)


@cute.kernel
def decode_kernel(
    partial: cute.Tensor,
    lse: cute.Tensor,
    query: cute.Tensor,
    keys: cute.Tensor,
    values: cute.Tensor,
    tables: cute.Tensor,
    seq_lens: cute.Tensor,
    scale: cutlass.Float32,
    shape: cutlass.Constexpr,
):
    """One span of one request, for shape.heads query heads.

    Grid (spans, num_heads / shape.heads, B), NUM_THREADS threads. query (D, heads, B), keys and
    values (D, kv heads, block_size, blocks), tables (columns, B), partial (D, heads, spans, B) and
    lse (heads, spans, B) float32; the dimensions as CuTe names them, the innermost first. scale has
    LOG2E in it. Bytes read: 4 * D for each key in the span, halves.
    """
    thread, _, _ = cute.arch.thread_idx()
    span, part, request = cute.arch.block_idx()
    lane, slot = thread % shape.lanes, thread // shape.lanes
    first_head = part * shape.heads
    kv_head = first_head // shape.group_size
    end = seq_lens[request]
    begin, length = span_of(end, shape)
    begin, end = cutlass.max(begin, span * length), cutlass.min(end, span * length + length)
    if begin < end:
        # in registers: of each head this lane's numbers, then one number, then one for each key
        q, sums = (registers((VECTOR, shape.heads), cutlass.Float32) for _ in range(2))
        top, total = (registers(shape.heads, cutlass.Float32) for _ in range(2))
        scores = registers((UNROLL, shape.heads), cutlass.Float32)
        k, v = (registers((VECTOR, UNROLL), keys.element_type) for _ in range(2))
        begin_sums(q, sums, top, total, query[None, None, request], scale, first_head, lane, shape)
        for base in range(begin, end, shape.slots * UNROLL):
            first = base + slot  # of this slot
            load(k, v, keys, values, tables[None, request], first, end, lane, kv_head, shape)
            score(scores, q, k, first, end, shape)
            take_in(sums, top, total, scores, v, shape)
        merge_slots(
            partial[None, None, span, request], lse[None, span, request], sums, top, total,
            first_head, shape,
        )  # fmt: skip


def registers(sizes, dtype):
    """A tensor of this thread; its indices are known to the compiler."""
    return cute.make_rmem_tensor(sizes, dtype)


@cute.jit
def begin_sums(q, sums, top, total, query, scale, first_head, lane, shape: cutlass.Constexpr):
    """This lane's numbers of its heads' queries, times scale, and sums of nothing."""
    for h in cutlass.range_constexpr(shape.heads):
        top[h], total[h] = LOWEST, 0.0
        for i in cutlass.range_constexpr(VECTOR):
            number = cutlass.Float32(query[lane * VECTOR + i, first_head + h])
            q[i, h], sums[i, h] = number * scale, 0.0


@cute.jit
def load(k, v, keys, values, table, first, end, lane, kv_head, shape: cutlass.Constexpr):
    """This lane's numbers of the keys first, first + slots and so on: UNROLL loads each.

    From `end` on the last key again: it is in the cache, and its weight is 0.
    """
    for u in cutlass.range_constexpr(UNROLL):
        at = cutlass.min(first + u * shape.slots, end - 1)
        block = cutlass.Int64(table[at // shape.block_size])  # a cache is large
        place = (None, kv_head, at % shape.block_size, block)
        cute.autovec_copy(cute.local_tile(keys[place], (VECTOR,), (lane,)), k[None, u])
        cute.autovec_copy(cute.local_tile(values[place], (VECTOR,), (lane,)), v[None, u])


@cute.jit
def score(scores, q, k, first, end, shape: cutlass.Constexpr):
    """scores [UNROLL, heads] of the keys first, first + slots and so on, -inf from `end` on.

    A lane multiplies its numbers, and the lanes of a slot bring together what they have.
    """
    for u in cutlass.range_constexpr(UNROLL):
        is_key = first + u * shape.slots < end
        for h in cutlass.range_constexpr(shape.heads):
            product = cutlass.Float32(0.0)
            for i in cutlass.range_constexpr(VECTOR):
                product += q[i, h] * cutlass.Float32(k[i, u])
            product = cute.arch.warp_reduction_sum(product, threads_in_group=shape.lanes)
            scores[u, h] = product if is_key else -cutlass.Float32.inf


@cute.jit
def take_in(sums, top, total, scores, v, shape: cutlass.Constexpr):
    """An online softmax: sums [VECTOR, heads] and total [heads] by the maximum top [heads], which
    grows with the scores.
    """
    for h in cutlass.range_constexpr(shape.heads):
        highest = top[h]
        for u in cutlass.range_constexpr(UNROLL):
            highest = cutlass.max(highest, scores[u, h])
        correction = cute.math.exp2(top[h] - highest, fastmath=True)
        top[h], total[h] = highest, total[h] * correction
        for i in cutlass.range_constexpr(VECTOR):
            sums[i, h] = sums[i, h] * correction
        for u in cutlass.range_constexpr(UNROLL):
            weight = cute.math.exp2(scores[u, h] - highest, fastmath=True)
            total[h] = total[h] + weight
            for i in cutlass.range_constexpr(VECTOR):
                sums[i, h] = sums[i, h] + weight * cutlass.Float32(v[i, u])


@cute.jit
def merge_slots(partial, lse, sums, top, total, first_head, shape: cutlass.Constexpr):
    """Bring together, in shared memory, what the slots of a program have, and write it to partial
    (D, heads) and lse (heads).
    """
    thread, _, _ = cute.arch.thread_idx()
    lane, slot = thread % shape.lanes, thread // shape.lanes
    allocator = memory.SmemAllocator()
    of_slots = cute.make_layout((shape.head_dim, shape.heads, shape.slots))
    all_sums = allocator.allocate_tensor(cutlass.Float32, of_slots, 16)
    pairs = cute.make_layout((2, shape.heads, shape.slots))
    stats = allocator.allocate_tensor(cutlass.Float32, pairs, 16)
    for h in cutlass.range_constexpr(shape.heads):
        for i in cutlass.range_constexpr(VECTOR):
            all_sums[lane * VECTOR + i, h, slot] = sums[i, h]
        if lane == 0:
            stats[0, h, slot], stats[1, h, slot] = top[h], total[h]
    cute.arch.sync_threads()
    for number in range(thread, shape.head_dim * shape.heads, NUM_THREADS):
        i, h = number % shape.head_dim, number // shape.head_dim
        highest = cutlass.Float32(LOWEST)
        for s in cutlass.range_constexpr(shape.slots):
            highest = cutlass.max(highest, stats[0, h, s])
        normaliser, mixed = cutlass.Float32(0.0), cutlass.Float32(0.0)
        for s in cutlass.range_constexpr(shape.slots):
            weight = cute.math.exp2(stats[0, h, s] - highest, fastmath=True)
            normaliser += weight * stats[1, h, s]
            mixed += weight * all_sums[i, h, s]
        partial[i, first_head + h] = mixed / normaliser
        if i == 0:
            lse[first_head + h] = highest + cute.math.log2(normaliser, fastmath=True)


@cute.kernel
def merge_kernel(
    output: cute.Tensor,
    partial: cute.Tensor,
    lse: cute.Tensor,
    seq_lens: cute.Tensor,
    shape: cutlass.Constexpr,
):
    """The mean of a head's spans by their weights. Grid (num_heads, B), head_dim threads.

    A request of no keys, which is padding, becomes 0.
    """
    i, _, _ = cute.arch.thread_idx()
    head, request, _ = cute.arch.block_idx()
    end = seq_lens[request]
    begin, length = span_of(end, shape)
    first, last = begin // length, (end + length - 1) // length
    highest = cutlass.Float32(LOWEST)
    for span in range(first, last):
        highest = cutlass.max(highest, lse[head, span, request])
    normaliser, mixed = cutlass.Float32(0.0), cutlass.Float32(0.0)
    for span in range(first, last):
        weight = cute.math.exp2(lse[head, span, request] - highest, fastmath=True)
        normaliser += weight
        mixed += weight * partial[i, head, span, request]
    result = cutlass.Float32(0.0)
    if last > first:
        result = mixed / normaliser
    output[i, head, request] = output.element_type(result)


@cute.jit
def launch(
    pointers: tuple[Any, ...],
    scale: cutlass.Float32,
    query_stride: cutlass.Int32,
    table_stride: cutlass.Int32,
    num_requests: cutlass.Int32,
    num_spans: cutlass.Int32,
    num_blocks: cutlass.Int32,
    stream: driver.CUstream,
    shape: cutlass.Constexpr,
):
    """Both kernels: pointers of output, partial, lse, query, keys, values, tables and seq_lens."""
    at_output, at_partial, at_lse, at_query, at_keys, at_values, at_tables, at_lens = pointers
    d, heads, kv_heads = shape.head_dim, shape.num_heads, shape.num_kv_heads

    def view(pointer, sizes, strides):
        return cute.make_tensor(pointer, cute.make_layout(sizes, stride=strides))

    pages = (d, kv_heads, shape.block_size, num_blocks)
    page_strides = (1, d, d * kv_heads, d * kv_heads * shape.block_size)
    spans_strides = (1, d, d * heads, d * heads * num_spans)
    partial = view(at_partial, (d, heads, num_spans, num_requests), spans_strides)
    lse = view(at_lse, (heads, num_spans, num_requests), (1, heads, heads * num_spans))
    seq_lens = view(at_lens, (num_requests,), (1,))
    decode_kernel(
        partial,
        lse,
        view(at_query, (d, heads, num_requests), (1, d, query_stride)),
        view(at_keys, pages, page_strides),
        view(at_values, pages, page_strides),
        view(at_tables, (table_stride, num_requests), (1, table_stride)),
        seq_lens,
        scale,
        shape,
    ).launch(
        grid=(num_spans, heads // shape.heads, num_requests),
        block=(NUM_THREADS, 1, 1),
        stream=stream,
    )
    output = view(at_output, (d, heads, num_requests), (1, d, d * heads))
    merge_kernel(output, partial, lse, seq_lens, shape).launch(
        grid=(heads, num_requests, 1), block=(d, 1, 1), stream=stream
    )


@cache
def compiled(shape: Shape, dtype: torch.dtype) -> Any:
    """launch() for layers of that shape, for the GPU of this process or that of CUTE_DSL_ARCH."""
    numbers = [cutlass.Float32(1.0), *(cutlass.Int32(1) for _ in range(5))]
    return cute.compile(launch, pointers_to([0] * 8, dtype), *numbers, driver.CUstream(0), shape)


def pointers_to(addresses: Sequence[int], dtype: torch.dtype) -> tuple[Any, ...]:
    """What launch() takes for output, partial, lse, query, keys, values, tables and seq_lens."""
    half, number, index = DTYPES[dtype], cutlass.Float32, cutlass.Int32
    types = (half, number, number, half, half, half, index, index)
    aligned = (16, 16, 16, 2, 16, 16, 4, 4)  # bytes; a query may be a view of a wider row
    return tuple(
        make_ptr(kind, address, cute.AddressSpace.gmem, assumed_align=align)
        for kind, address, align in zip(types, addresses, aligned, strict=True)
    )


class DecodePlan(NamedTuple):
    """A step of decodes alone: row i of the batch is that of request i."""

    spec: AttentionSpec
    block_tables: Tensor  # [B, max_blocks] int32
    seq_lens: Tensor  # [B] int32
    num_spans: int  # of the request that has the most


class CuTeDSLBackend(TritonBackend):
    """Decodes by a kernel in CuTe DSL, batches that have chunks by the Triton rung."""

    name = "cutedsl"
    supports_sinks = False
    cudagraph_support = "UNIFORM_SINGLE_TOKEN_DECODE"

    def check_layers(self, specs: Iterable[AttentionSpec]) -> None:
        """A lane has eight numbers of a head, and a warp whole slots."""
        super().check_layers(specs)
        refuse_specs(self.name, specs, HEAD_DIMS)

    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> Any:
        """Decodes need the host for the number of spans only, so that a recorded step stays."""
        if (metadata.query_lens_cpu != 1).any():
            return super().plan(metadata, spec)
        lengths = metadata.seq_lens_cpu
        split = SPLIT * (-(-lengths // (SPLIT * MAX_SPLITS))).clip(1)
        num_spans = int((-(-lengths // split)).max(initial=1))
        return DecodePlan(spec, metadata.block_tables, metadata.seq_lens, num_spans)

    def attend(self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: Any) -> Tensor:
        """Two launches for decodes: spans, and their merge."""
        if not isinstance(plan, DecodePlan):
            return super().attend(query, key_cache, value_cache, plan)
        output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        output[len(plan.seq_lens) :] = 0
        if len(plan.seq_lens):
            paged_decode(output, query, key_cache, value_cache, plan)
        return output


def paged_decode(
    output: Tensor, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: DecodePlan
) -> None:
    """Launch both kernels on the current stream: rows [0, B) of output [T, num_heads, head_dim]."""
    spec, block_tables, seq_lens, num_spans = plan
    num_blocks, block_size = key_cache.shape[:2]
    heads = spec.num_kv_heads, spec.group_size, spec.head_dim
    run = compiled(Shape(*heads, block_size, spec.sliding_window or 0), query.dtype)
    partial = torch.empty(
        len(seq_lens), num_spans, *query.shape[1:], dtype=torch.float32, device=query.device
    )
    lse = torch.empty(partial.shape[:-1], dtype=torch.float32, device=query.device)
    tensors = (output, partial, lse, query, key_cache, value_cache, block_tables, seq_lens)
    strides = query.stride(0), block_tables.stride(0)
    run(
        pointers_to([tensor.data_ptr() for tensor in tensors], query.dtype),
        spec.scale * LOG2E,
        *strides,
        len(seq_lens),
        num_spans,
        num_blocks,
        driver.CUstream(current_stream(query.device)),
    )


def current_stream(device: torch.device) -> int:
    """The handle of the stream on which torch launches; 0, the default one, without a GPU."""
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0
