"""The plans of a step: one for all layers that attend alike, with the block tables of each group.

Groups of layers have the same requests, so all that is made of their lengths is the same. Source:
AttentionMetadataBuilder.update_block_table in vllm/v1/attention/backend.py.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mini_vllm.attention.groups.chunks import ChunkedBatch
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec

if TYPE_CHECKING:
    from mini_vllm.attention.backend import AttentionBackend


def kinds_of(specs: Sequence[AttentionSpec]) -> list[int]:
    """A number for each layer, the same for those that attend alike. A spec is hashed once."""
    numbers: dict[tuple[AttentionSpec, bool], int] = {}
    return [numbers.setdefault((spec, spec.sinks is None), len(numbers)) for spec in specs]


def plan_layers(
    backend: "AttentionBackend",
    groups: Sequence[AttentionMetadata],
    layer_groups: Sequence[int],
    specs: Sequence[AttentionSpec],
    kinds: Sequence[int],
) -> list[Any]:
    """The plan of each layer, with its sinks.

    groups: metadata that differ in slots and block tables. layer_groups, specs, kinds: of each
    layer. Errors: InvalidParameterError for chunks that do not end with a block.
    """
    chunked: dict[int, ChunkedBatch] = {}
    firsts: dict[int, Any] = {}
    plans: dict[tuple[int, int], Any] = {}
    found = []
    for group, kind, spec in zip(layer_groups, kinds, specs, strict=True):
        if (plan := plans.get((group, kind))) is None:
            batch = groups[group]
            if chunk := spec.attention_chunk_size:
                if chunk not in chunked:
                    chunked[chunk] = ChunkedBatch(batch, chunk)
                batch = chunked[chunk].with_tables(batch)
            if kind in firsts:
                plan = backend.update_block_table(firsts[kind], batch, spec)
            else:
                plan = firsts[kind] = backend.plan(batch, spec)
            plans[group, kind] = plan
        found.append(plan if spec.sinks is None else plan._replace(spec=spec))
    return found
