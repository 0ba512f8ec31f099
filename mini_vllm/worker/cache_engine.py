"""CacheEngine: the memory of the KV cache, and copies of whole blocks within it and to a pool in
main memory.

A KV cache manager that swaps or forks names pairs of block ids; the model runner has them copied
before it computes. Which blocks are whose is the manager's business. Source: CacheEngine in
vllm/worker/cache_engine.py of vLLM V0; V1 has neither swapping nor forks.
"""

import mmap
from collections.abc import Sequence
from functools import partial
from math import prod

import torch
from torch import Tensor

from mini_vllm.attention.backend import StrideOrder, make_cache
from mini_vllm.step import BlockPair, SwapIn, SwapOut


class CacheEngine:
    """Owns per layer K and V, each [num_blocks, *block_shape] on the device, and [num_cpu_blocks,
    *block_shape] beside. With groups of layers num_layers is that of one group.

    block_shape: (block_size, num_kv_heads, head_dim). How a block lies in memory is the attention
    back end's choice, and the same in both pools; its shape hides it. The CPU pool is pinned beside
    a GPU, so that the copies run at the speed of the bus.
    """

    def __init__(
        self,
        num_layers: int,
        block_shape: tuple[int, int, int],
        *,
        num_blocks: int,
        num_cpu_blocks: int = 0,
        dtype: torch.dtype,
        device: torch.device,
        stride_order: StrideOrder = (0, 1, 2, 3),
    ) -> None:
        make = partial(make_cache, stride_order=stride_order, dtype=dtype)
        # a GPU has its cache at once, and copies from pinned memory alone
        on_cpu = {"zeros": lazy_zeros} if device.type == "cpu" else {"pin_memory": True}
        on_device = on_cpu if device.type == "cpu" else {"device": device}
        shape, cpu_shape = (num_blocks, *block_shape), (num_cpu_blocks, *block_shape)
        self.kv_caches = [
            (make(shape, **on_device), make(shape, **on_device)) for _ in range(num_layers)
        ]
        self.cpu_caches = [
            (make(cpu_shape, **on_cpu), make(cpu_shape, **on_cpu)) for _ in range(num_layers)
        ]

    def swap_out(self, pairs: Sequence[SwapOut]) -> None:
        """Copy blocks to the CPU pool: (block, CPU block)."""
        _copy_blocks(self.kv_caches, self.cpu_caches, pairs)

    def swap_in(self, pairs: Sequence[SwapIn]) -> None:
        """Copy blocks from the CPU pool: (CPU block, block)."""
        _copy_blocks(self.cpu_caches, self.kv_caches, pairs)

    def copy(self, pairs: Sequence[BlockPair]) -> None:
        """Copy blocks within the device: (block, block). All are read before any is written."""
        _copy_blocks(self.kv_caches, self.kv_caches, pairs)


def lazy_zeros(shape: Sequence[int], *, dtype: torch.dtype) -> Tensor:
    """Zeros in main memory that take a page when it is first written, and not before.

    A cache is planned for many long requests. So one that serves a few short ones stays small. The
    pages come from the system itself, which has zeroed them; torch would write zeros into each.
    Huge pages are not asked for: a token writes a few hundred bytes in many places, and with them
    the whole engine was a tenth slower.
    """
    num_bytes = prod(shape) * dtype.itemsize
    if not num_bytes:
        return torch.zeros(*shape, dtype=dtype)
    pages = mmap.mmap(-1, num_bytes, access=mmap.ACCESS_COPY)  # private to this process
    return torch.frombuffer(pages, dtype=dtype).view(*shape)


def _copy_blocks(
    sources: Sequence[tuple[Tensor, Tensor]],
    targets: Sequence[tuple[Tensor, Tensor]],
    pairs: Sequence[BlockPair],
) -> None:
    if not pairs:
        return
    from_ids, to_ids = (torch.tensor(ids) for ids in zip(*pairs, strict=True))
    for source_layer, target_layer in zip(sources, targets, strict=True):
        for source, target in zip(source_layer, target_layer, strict=True):
            blocks = source[from_ids.to(source.device)]
            target[to_ids.to(target.device)] = _across(blocks, target.device)


def _across(blocks: Tensor, device: torch.device) -> Tensor:
    """The blocks on another device; what they pass through in main memory is pinned, since the
    driver would copy pageable memory once more.
    """
    if blocks.device == device:
        return blocks
    if device.type == "cpu":
        return torch.empty_like(blocks, device=device, pin_memory=True).copy_(blocks)
    return blocks.pin_memory().to(device, non_blocking=True)
