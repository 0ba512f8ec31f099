"""How long one layer's attention takes, write and attend, over a paged cache of shuffled blocks.

    python benchmarks/bench_attention.py --device cpu [--threads 2] [--dtype bfloat16]
    python benchmarks/bench_attention.py --device cpu --rungs [--block-size 16] [--rounds 9]
    python benchmarks/bench_attention.py --device cuda [--quick | --sweep] [--block-size 16] [--results DIR]

The GPU side, the default where CUDA is found, is told in attention_cuda.py. On a CPU: a table, block sizes across,
batches down, milliseconds per layer. Two yardsticks stand beside the paged figures: `dense`, the same attention calls
over keys and values that already lie contiguous per head and never were paged, and `copy`, the bare reading of the
blocks. The shape is Qwen3-0.6B's: 16 query heads, 8 KV heads, head_dim 128. Each figure is the fastest of several runs
over four layers' caches, so that a cache has left the processor's own by its next turn.

--rungs compares the back ends torch and c, which take turns, and the same attention in dense form, with the floor: for
decodes the bytes of their keys and values at the bandwidth of a copy, for chunks their products at the rate of a large
float32 matrix product. Least and median of the rounds.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mini_vllm.attention import AttentionMetadata, AttentionSpec, PackedRequest, PagedAttention, get_backend  # noqa: E402
from mini_vllm.attention.backend import make_cache  # noqa: E402

NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, NUM_LAYERS = 16, 8, 128, 4
SCALE = HEAD_DIM**-0.5
BLOCK_SIZES = (16, 32, 64, 128)
CPU = torch.device("cpu")
BATCHES = {  # name: (cached tokens, new tokens) of each request
    "32 decodes of ~200": [(60 + 9 * i, 1) for i in range(32)],
    "32 decodes of ~800": [(240 + 36 * i, 1) for i in range(32)],
    "1 decode of 4096": [(4095, 1)],
    "prompt of 512": [(0, 512)],
    "prompt of 1024": [(0, 1024)],
    "512 after 1024": [(1024, 512)],
    "16 decodes + 512 prompt": [(60 + 18 * i, 1) for i in range(16)] + [(0, 512)],
}


def milliseconds(run: Callable[[int], object], repeats: int) -> float:
    """Per layer, the best of several rounds over all layers."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for layer in range(NUM_LAYERS):
            run(layer)
        best = min(best, time.perf_counter() - start)
    return best / NUM_LAYERS * 1e3


def paged(spans: list[tuple[int, int]], block_size: int, dtype: torch.dtype, repeats: int) -> tuple[float, float]:
    """Milliseconds of the paged back end, and of reading the requests' blocks and nothing else."""
    widths = [-(-(start + new) // block_size) for start, new in spans]
    free = torch.randperm(sum(widths), generator=torch.Generator().manual_seed(0)).tolist()
    requests = [PackedRequest([free.pop() for _ in range(w)], *span) for w, span in zip(widths, spans, strict=True)]
    shape = (sum(widths), block_size, NUM_KV_HEADS, HEAD_DIM)
    caches = [(torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)) for _ in range(NUM_LAYERS)]
    metadata = AttentionMetadata.pack(requests, block_size, CPU)
    spec = AttentionSpec(NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, SCALE, dtype=dtype)
    attend = PagedAttention(get_backend("torch", CPU), caches, metadata, [spec] * NUM_LAYERS)
    num_tokens = sum(new for _, new in spans)
    query = torch.randn(num_tokens, NUM_HEADS, HEAD_DIM).to(dtype)
    key, value = (torch.randn(num_tokens, NUM_KV_HEADS, HEAD_DIM).to(dtype) for _ in range(2))
    scratch = torch.empty(max(widths), *shape[1:], dtype=dtype)
    tables = [torch.tensor(request.block_ids) for request in requests]

    def copy(layer: int) -> None:
        for cache in caches[layer]:
            for table in tables:
                torch.index_select(cache, 0, table, out=scratch[: len(table)])

    def run(layer: int) -> None:
        attend(layer, query, key, value)

    return milliseconds(run, repeats), milliseconds(copy, repeats)


def dense(spans: list[tuple[int, int]], dtype: torch.dtype, repeats: int) -> float:
    """Milliseconds of attention without pages: keys and values [num_kv_heads, length, head_dim], one call a request."""
    layers = [
        [torch.randn(2, 1, NUM_KV_HEADS, start + new, HEAD_DIM).to(dtype) for start, new in spans]
        for _ in range(NUM_LAYERS)
    ]
    queries = [torch.randn(1, NUM_HEADS, new, HEAD_DIM).to(dtype) for _, new in spans]

    def run(layer: int) -> None:
        for (start, new), query, (key, value) in zip(spans, queries, layers[layer], strict=True):
            if new == 1:
                query = query.view(1, NUM_KV_HEADS, -1, HEAD_DIM)
            mask = torch.ones(new, start + new, dtype=torch.bool).tril(start) if start and new > 1 else None
            F.scaled_dot_product_attention(
                query, key, value, mask, is_causal=new > 1 and not start, scale=SCALE, enable_gqa=new > 1
            )

    return milliseconds(run, repeats)


# --- the rungs beside the floor -------------------------------------------------------------------------------------

RUNGS = ("torch", "c")
RUNG_BATCHES = {  # name: (cached tokens, new tokens) of each request
    "decode 8 x 256": [(255, 1)] * 8,
    "decode 8 x 1,024": [(1023, 1)] * 8,
    "decode 8 x 4,096": [(4095, 1)] * 8,
    "decode 32 x 256": [(255, 1)] * 32,
    "decode 1 x 4,096": [(4095, 1)],
    "prefill 8 x 128": [(0, 128)] * 8,
    "prefill 1 x 1,024": [(0, 1024)],
    "prefill 4 x 1,024 of 4,096": [(3072, 1024)] * 4,
}


def rung_call(name: str, spans: list[tuple[int, int]], block_size: int, dtype: torch.dtype) -> Callable[[int], object]:
    """A call that does a layer's attention of the batch by the back end of that name."""
    rung = get_backend(name, CPU)
    widths = [-(-(start + new) // block_size) for start, new in spans]
    free = torch.randperm(sum(widths), generator=torch.Generator().manual_seed(0)).tolist()
    requests = [PackedRequest([free.pop() for _ in range(w)], *span) for w, span in zip(widths, spans, strict=True)]
    shape = (sum(widths), block_size, NUM_KV_HEADS, HEAD_DIM)
    caches = [
        tuple(make_cache(shape, rung.stride_order, dtype=dtype).normal_() for _ in range(2)) for _ in range(NUM_LAYERS)
    ]
    spec = AttentionSpec(NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, SCALE, dtype=dtype)
    attend = PagedAttention(rung, caches, AttentionMetadata.pack(requests, block_size, CPU), [spec] * NUM_LAYERS)
    num_tokens = sum(new for _, new in spans)
    query = torch.randn(num_tokens, NUM_HEADS, HEAD_DIM).to(dtype)
    key, value = (torch.randn(num_tokens, NUM_KV_HEADS, HEAD_DIM).to(dtype) for _ in range(2))
    return lambda layer: attend(layer, query, key, value)


def floor_ms(spans: list[tuple[int, int]], dtype: torch.dtype, bandwidth: float, flops: float) -> float:
    """What a layer cannot undercut: reading keys and values, and multiplying those in sight. bytes/s, FLOP/s."""
    read = sum(start + new for start, new in spans) * 2 * NUM_KV_HEADS * HEAD_DIM * dtype.itemsize
    pairs = sum(new * start + new * (new + 1) // 2 for start, new in spans)
    return max(read / bandwidth, pairs * 4 * NUM_HEADS * HEAD_DIM / flops) * 1e3


def measure_machine() -> tuple[float, float]:
    """Bytes/s of a copy, read and written bytes both counted, and FLOP/s of a float32 matrix product; best of five."""
    source, target = torch.ones(1 << 27), torch.empty(1 << 27)  # 512 MiB each
    copy = min(timed(lambda: target.copy_(source)) for _ in range(5))
    a = torch.randn(1024, 1024)
    product = min(timed(lambda: a @ a) for _ in range(20))
    return 2 * 4 * source.numel() / copy, 2 * 1024**3 / product


def timed(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure_rungs(args: argparse.Namespace) -> None:
    """Print the comparison."""
    torch.set_num_threads(args.threads)
    dtype = getattr(torch, args.dtype)
    bandwidth, flops = measure_machine()
    print(
        f"{args.dtype}, {args.threads} threads, blocks of {args.block_size}; copy {bandwidth / 1e9:.1f} GB/s, "
        f"float32 product {flops / 1e9:.0f} GFLOP/s; ms per layer, least (median) of {args.rounds} rounds"
    )
    print(f"{'':28}{'floor':>8}{'dense':>8}" + "".join(f"{name:>18}" for name in RUNGS) + f"{'c / floor':>12}")
    with torch.inference_mode():
        for name, spans in RUNG_BATCHES.items():
            calls = {rung: rung_call(rung, spans, args.block_size, dtype) for rung in RUNGS}
            times: dict[str, list[float]] = {rung: [] for rung in RUNGS}
            for _ in range(args.rounds):
                for rung, call in calls.items():
                    times[rung].append(milliseconds(call, 1))
            floor, least = floor_ms(spans, dtype, bandwidth, flops), {rung: min(times[rung]) for rung in RUNGS}
            figures = (f"{f'{least[rung]:.2f} ({statistics.median(times[rung]):.2f})':>18}" for rung in RUNGS)
            row = f"{name:28}{floor:8.2f}{dense(spans, dtype, 3):8.2f}" + "".join(figures)
            print(f"{row}{least['c'] / floor:12.2f}", flush=True)


def measure_on_cpu(args: argparse.Namespace) -> None:
    """Print the table."""
    torch.set_num_threads(args.threads)
    dtype = getattr(torch, args.dtype)
    print(f"{args.dtype}, {args.threads} threads, torch {torch.__version__}; ms per layer, paged (copy alone)")
    print(f"{'':26}{'dense':>8}" + "".join(f"{f'block {size}':>18}" for size in BLOCK_SIZES))
    with torch.inference_mode():
        for name, spans in BATCHES.items():
            row = [f"{name:26}{dense(spans, dtype, args.repeats):8.2f}"]
            for block_size in BLOCK_SIZES:
                total, copy = paged(spans, block_size, dtype, args.repeats)
                row.append(f"{f'{total:.2f} ({copy:.2f})':>18}")
            print("".join(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    cpu = parser.add_argument_group("on a CPU")
    cpu.add_argument("--threads", type=int, default=2)
    cpu.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    cpu.add_argument("--repeats", type=int, default=9)
    cpu.add_argument("--rungs", action="store_true", help="the back ends torch and c in turns, beside the floor")
    cpu.add_argument("--rounds", type=int, default=9)
    cuda = parser.add_argument_group("on a GPU")
    cuda.add_argument("--block-size", type=int, default=16)
    cuda.add_argument("--quick", action="store_true", help="one model, few sizes, about a minute; nothing is written")
    cuda.add_argument("--sweep", action="store_true", help="try tile shapes and rank them; nothing is written")
    cuda.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="folder of the report")
    cuda.add_argument("--dry-run", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.device == "cpu" and not args.dry_run:
        return measure_rungs(args) if args.rungs else measure_on_cpu(args)
    import attention_cuda
    import attention_sweep

    return attention_sweep.main(args) if args.sweep else attention_cuda.main(args)


if __name__ == "__main__":
    main()
