"""The interface that every rung of the attention ladder implements, and how a model sees it.

A back end plans a step on the host, once for all layers that attend alike. For each layer it then
has two verbs, which are work of the device alone: write the new keys and values into the paged
cache, and attend over it. Nothing outside this package turns a slot into an address, so a new rung
is one new file and one name in registry.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from mini_vllm.attention.checks import check_cache, check_layer, check_slots, check_tables
from mini_vllm.attention.groups.plans import kinds_of, plan_layers
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec
from mini_vllm.attention.rotary import Rotation, apply_rotary
from mini_vllm.errors import InvalidParameterError

StrideOrder = tuple[int, int, int, int]
KVCache = tuple[Tensor, Tensor]  # of one layer: keys and values


class AttentionBackend(ABC):
    """Causal attention of a packed batch over a paged KV cache.

    The cache of a layer is two tensors [num_blocks, block_size, num_kv_heads, head_dim]; how they
    lie in memory is the back end's choice. A back end keeps nothing of a step but scratch memory to
    use again: what it knows of the step is in the plan, which the caller holds.
    """

    name: ClassVar[str]
    stride_order: ClassVar[StrideOrder] = (0, 1, 2, 3)
    """The cache's dimensions as they follow in memory, the outermost first (vLLM:
    KVCacheLayout.stride_order in vllm/v1/kv_cache_layout.py).
    """
    cudagraph_support: ClassVar[str] = "NEVER"
    """What of it can be recorded and replayed, by name (AttentionCGSupport in worker/graphs)."""
    supports_sinks: ClassVar[bool] = False
    """Whether attend() looks at plan.spec.sinks (vLLM: AttentionBackend.supports_sink)."""
    # look at every slot and block id before it is used, which makes the host wait for the device
    debug: bool = False
    # cut a decode as a prompt is cut, so that a query has the same sums in both
    batch_invariant: bool = False

    def check_layers(self, specs: Iterable[AttentionSpec]) -> None:
        """Raise InvalidParameterError for layers that this rung has no kernel for."""
        if not self.supports_sinks and any(spec.sinks is not None for spec in specs):
            raise InvalidParameterError(
                f"attention backend {self.name!r} has no sinks, which this model's layers need"
            )

    @abstractmethod
    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> Any:
        """All that the host has to do for the layers of this spec in this step, uploads included.

        Returns what attend() of the same back end takes; it is good for this step and this spec.
        Called once a step for each distinct spec, before the first layer runs. FlashInfer: plan and
        run; vLLM: AttentionMetadataBuilder.build.
        """

    def update_block_table(
        self, plan: Any, metadata: AttentionMetadata, spec: AttentionSpec
    ) -> Any:
        """The plan of another group of layers of this spec, which differs in its block tables; a
        rung whose plans have block_tables shares the rest (vLLM: AttentionMetadataBuilder).
        """
        return self.plan(metadata, spec)

    @abstractmethod
    def write_kv(
        self,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
    ) -> None:
        """Store key and value [T, num_kv_heads, head_dim] at the batch's slots.

        A slot of -1 stores nothing.
        """

    @abstractmethod
    def attend(self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: Any) -> Tensor:
        """Attention of query [T, num_heads, head_dim] over the cached keys; the result has the same
        shape and dtype.

        What a query sees is told by AttentionSpec. Rows of the batch that belong to no request come
        back as zeros, and so do those of a padded request, whose seq_len is 0 though it may have
        rows. What lies in the cache outside the requests' own tokens has no influence, not even
        NaN.
        """

    def rotate_and_write_kv(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rotation: Rotation,
        cache: KVCache,
        metadata: AttentionMetadata,
    ) -> Tensor:
        """Turn query and key, store the turned key and value; returns the turned query.

        A rung may do it in one go.
        """
        self.write_kv(apply_rotary(key, rotation), value, *cache, metadata)
        return apply_rotary(query, rotation)


def make_cache(
    shape: Sequence[int], stride_order: StrideOrder, zeros: Any = torch.zeros, **options: Any
) -> Tensor:
    """Zeros of that shape, [num_blocks, block_size, num_kv_heads, head_dim], whose dimensions
    follow in memory as stride_order says, without gaps. options: those of `zeros`."""
    memory: Tensor = zeros([shape[dim] for dim in stride_order], **options)
    return memory.permute([stride_order.index(dim) for dim in range(len(shape))])


class PagedAttention:
    """One step's attention, as the model calls it: back end, KV cache of every layer, metadata of
    the batch, plans.

    kv_caches and specs: one for each layer. metadata: one for all layers, or one for each group of
    layers, whose block tables differ; layer_groups then says the group of each layer. The step is
    planned here, once for each distinct spec. Errors: InvalidParameterError for a cache or block
    tables that do not fit; nothing was written.
    """

    def __init__(
        self,
        backend: AttentionBackend,
        kv_caches: Sequence[KVCache],
        metadata: AttentionMetadata | Sequence[AttentionMetadata],
        specs: Sequence[AttentionSpec],
        layer_groups: Sequence[int] = (),
    ) -> None:
        groups = [metadata] if isinstance(metadata, AttentionMetadata) else metadata
        layer_groups = layer_groups or (0,) * len(specs)
        self.metadata = [groups[group] for group in layer_groups]  # by layer
        backend.check_layers(specs)
        kinds = kinds_of(specs)
        # layer i of every group has the same memory
        memory = {
            (id(caches[0]), k): i
            for i, (caches, k) in enumerate(zip(kv_caches, kinds, strict=True))
        }
        for i in memory.values():
            check_cache(*kv_caches[i], self.metadata[i], specs[i], backend.stride_order)
        for (key_cache, _), meta in zip(kv_caches, self.metadata, strict=True):
            if backend.debug:
                check_slots(key_cache, meta)
        for each in groups:
            check_tables(each)
        self.backend = backend
        self.kv_caches = kv_caches
        self.specs = specs
        self.plans = plan_layers(backend, groups, layer_groups, specs, kinds)  # by layer

    def __call__(
        self,
        layer_idx: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """Write the batch's key and value [T, num_kv_heads, head_dim], then attend: [T, num_heads,
        head_dim].

        rotation: turn query and key first. The order of write and attend is a promise. A block is
        published in the prefix cache when it is allocated, before its content is computed; a second
        request of the same step may already point at it. That is safe only because the keys and
        values of the whole batch are in the cache before any query reads it. Errors:
        InvalidParameterError for tensors that do not fit together; then nothing was written.
        """
        cache, metadata = self.kv_caches[layer_idx], self.metadata[layer_idx]
        check_layer(query, key, value, metadata, self.specs[layer_idx])
        if rotation is None:
            self.backend.write_kv(key, value, *cache, metadata)
        else:
            query = self.backend.rotate_and_write_kv(query, key, value, rotation, cache, metadata)
        return self.backend.attend(query, *cache, self.plans[layer_idx])
