"""How large a block of the KV cache is, and how long it takes to copy it to main memory: what a
calibration of the simulator says of it.
"""

import statistics
import time

import torch

from mini_vllm.step import CpuBlockId
from mini_vllm.worker.cache_engine import CacheEngine
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.model_runner import ModelRunner


def runner_of(executor: Executor) -> ModelRunner:
    """The runner of an executor that computes in this process, with torch."""
    assert isinstance(executor, LocalExecutor)
    return executor.runner


def kv_bytes_per_token(runner: ModelRunner) -> int:
    """K and V of one token in all layers, as they lie on the device."""
    caches = [cache for layer in runner.kv_caches for cache in layer]
    return sum(cache[0].nbytes for cache in caches) // runner.block_size


def seconds_per_block(runner: ModelRunner, num_blocks: int = 64, repeats: int = 5) -> float:
    """Median seconds to copy one block to main memory or back. It copies blocks of its own."""
    model, device = runner.model, runner.device
    cache = CacheEngine(
        model.num_layers,
        (runner.block_size, model.num_kv_heads, model.head_dim),
        num_blocks=num_blocks,
        num_cpu_blocks=num_blocks,
        dtype=runner.kv_caches[0][0].dtype,
        device=device,
        stride_order=runner.attention_backend.stride_order,
    )
    pairs = [(i, CpuBlockId(i)) for i in range(num_blocks)]
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        cache.swap_out(pairs)
        cache.swap_in([(cpu_block, block) for block, cpu_block in pairs])
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times) / (2 * num_blocks)
