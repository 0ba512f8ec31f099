"""The device under a benchmark: its clock, its memory, and the two yardsticks that figures are held against.

A GPU works behind the host's back, so the clock is the GPU's own: two events around the replay of a CUDA graph. The
graph holds the kernels of one call and nothing of the host's work for it, and it is queued while the GPU is still busy
with a flush. The flush reads more than the L2 cache holds, since in a model many other bytes pass between two uses of
a layer's KV cache. It reads and does not write: what it left behind unwritten would be written back while the clock
runs. On a CPU, which serves only to try a benchmark out, the clock is the host's. Below stands what the benchmarks of
kernels share: the models whose shapes are measured, and when a result counts as wrong.
"""

import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import NamedTuple

import torch
from torch import Tensor

REPEATS = 25
WARM_UPS = 3
FLUSH_BYTES = 256 << 20
DTYPE = torch.bfloat16
TOLERANCE = 0.02  # of the largest output: bfloat16 has 8 bits, and the weights of a sum are rounded to it as well


class Layout(NamedTuple):
    """The part of a model that its kernels see."""

    name: str
    num_heads: int
    num_kv_heads: int
    head_dim: int
    hidden: int
    intermediate: int


LAYOUTS = (
    Layout("Qwen3-0.6B", 16, 8, 128, 1024, 3072),
    Layout("Llama-3.1-8B", 32, 8, 128, 4096, 14_336),
    Layout("Qwen3-32B", 64, 8, 128, 5120, 25_600),
)


def deviation(output: Tensor, expected: Tensor) -> float:
    """Largest difference relative to the largest number expected; infinite where there is a NaN."""
    difference = (output.float() - expected.float()).abs().max() / expected.float().abs().max()
    return float("inf") if difference.isnan() else float(difference)


@dataclass(frozen=True)
class Yardsticks:
    """What this device does at best: bytes/s of a copy (read and written both count), FLOP/s of a matrix product."""

    copy: float
    matmul: float

    def __str__(self) -> str:
        return f"copy {self.copy / 1e9:,.0f} GB/s, bf16 matrix product {self.matmul / 1e12:,.1f} TFLOP/s"


class Device:
    """A CUDA device, or for a dry run the CPU."""

    def __init__(self, name: str) -> None:
        self.torch = torch.device(name)
        self.is_cuda = self.torch.type == "cuda"
        self._flush = torch.ones(FLUSH_BYTES // 4 if self.is_cuda else 1, device=self.torch)

    def synchronize(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize()

    def free_bytes(self) -> int:
        """Free memory; for a dry run little, so that leaving out is tried as well."""
        if not self.is_cuda:
            return 1 << 20
        torch.cuda.empty_cache()
        return int(torch.cuda.mem_get_info(self.torch)[0])

    def seconds(self, run: Callable[[], object], repeats: int = REPEATS) -> float:
        """Median time of run() on the device, caches cold. A graph must be able to hold it: run() never waits."""
        run()
        self.synchronize()
        if not self.is_cuda:
            return host_seconds(run, 1)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(WARM_UPS + repeats)
        ]
        for start, end in events:
            self._flush.sum()
            start.record()
            graph.replay()
            end.record()
        self.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in events[WARM_UPS:]) / 1e3

    def enqueue_seconds(self, run: Callable[[], object], calls: int = 100) -> float:
        """The host's time for one run(), while nothing keeps it from queueing: best of five rounds of so many calls."""
        calls = calls if self.is_cuda else 1
        best = float("inf")
        for _ in range(5 if self.is_cuda else 1):
            self.synchronize()
            best = min(best, host_seconds(run, calls))
        self.synchronize()
        return best

    def yardsticks(self) -> Yardsticks:
        """Measured like everything else: a copy of 4 GiB, a product of two random 8192 x 8192 matrices.

        The copy turns every bit over, since a plain one becomes a transfer in the graph, and no kernel: a transfer
        reached 2,775 GB/s on an H200, a kernel 4,256.
        """
        size, edge = (4 << 30, 8192) if self.is_cuda else (1 << 16, 64)
        source = torch.empty(size // 4, dtype=torch.int32, device=self.torch).random_()
        target = torch.empty_like(source)
        copy = 2 * size / self.seconds(partial(torch.bitwise_not, source, out=target))
        del source, target
        a, b = torch.randn(2, edge, edge, device=self.torch).bfloat16()
        product = torch.empty_like(a)
        return Yardsticks(copy, 2 * edge**3 / self.seconds(lambda: torch.mm(a, b, out=product)))

    def describe(self) -> str:
        """Hardware, driver and versions."""
        versions = f"torch {torch.__version__}, Triton {version('triton')}, Python {platform.python_version()}"
        if not self.is_cuda:
            return f"CPU (dry run: the figures mean nothing), {versions}"
        properties = torch.cuda.get_device_properties(self.torch)
        memory = f"{properties.total_memory / (1 << 30):.0f} GiB, {properties.multi_processor_count} multiprocessors"
        return f"{properties.name} ({memory}), driver {driver_version()}, CUDA {torch.version.cuda}, {versions}"


def host_seconds(run: Callable[[], object], calls: int) -> float:
    """Seconds of the host for one run(), over so many in a row."""
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def driver_version() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"
