"""Layers in groups: those that see a window of the past give the blocks behind it back.

groups      what a group sees: all, a window, a chunk
layout      which layers make a group, and what that takes
lookup      the longest hit that all groups have
manager     a block table for each group, from one pool
"""

from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.offload.hybrid.layout import KVCacheLayout
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.offload.manager import OffloadingKVCacheManager
from mini_vllm.step import LayerKVSpec


def with_groups(
    manager_cls: type[KVCacheManager],
    kv_specs: tuple[LayerKVSpec, ...],
    block_size: int,
    num_batched_tokens: int,
) -> tuple[type[KVCacheManager], KVCacheLayout]:
    """The KV cache manager for a model of these layers, and how they lie in blocks: where there is
    a window, the plain one gives way to the one that has groups.

    num_batched_tokens: most tokens of steps in flight. A manager that does more than the plain one
    keeps all blocks of all layers. Raises InvalidParameterError for one that swaps, where the
    layers differ.
    """
    windows = {spec.sliding_window for spec in kv_specs}
    if len(windows) > 1 and issubclass(manager_cls, OffloadingKVCacheManager):
        raise InvalidParameterError(
            "preemption_mode must be 'recompute' for a model whose layers differ in their window "
            f"({', '.join(map(str, windows))}): blocks of groups are not swapped"
        )
    if manager_cls is KVCacheManager and any(windows):
        manager_cls = HybridKVCacheManager
    layer_groups = manager_cls.layer_groups(kv_specs)
    return manager_cls, KVCacheLayout(kv_specs, block_size, num_batched_tokens, layer_groups)
