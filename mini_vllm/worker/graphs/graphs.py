"""The recordings of one model, in four verbs: can_use, pad, replay, destroy.

A recording keeps addresses and shapes. So everything that differs between two steps lies in buffers
that stay, the batch is padded to a shape that was recorded, and what pads can do no harm: its slot
is -1, its sequence has no tokens, its block table is a row that belongs to no request. All of it is
reserved and recorded before the first request, so that a full cache is replayed, too. Source:
CUDAGraphWrapper in vllm/compilation/cuda_graph.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from mini_vllm.attention import (
    AttentionBackend,
    AttentionMetadata,
    AttentionSpec,
    PagedAttention,
    tiles,
)
from mini_vllm.attention.backend import KVCache
from mini_vllm.attention.tiles import Tiles
from mini_vllm.models.decoder import DecoderModel
from mini_vllm.worker.device import on_device
from mini_vllm.worker.graphs.attention import BreakingAttention, recordable
from mini_vllm.worker.graphs.batch import GraphBatch
from mini_vllm.worker.graphs.dispatcher import (
    BatchDescriptor,
    CudagraphDispatcher,
    Key,
    capture_sizes,
)
from mini_vllm.worker.graphs.modes import CUDAGraphMode, lower
from mini_vllm.worker.graphs.recording import (
    CPURecording,
    CUDARecording,
    MovedBufferError,
    Recording,
)
from mini_vllm.worker.graphs.step_buffers import DeviceTables, Field, StepBuffers
from mini_vllm.worker.input_batch import PackedStep

NO_TILE = [0, 0, 0, 0, 0, 0, -1, 0]  # no queries and no keys, and no partial result
TABLES = ("chunk_tiles", "short_tiles", "merges")


class GraphLimits(NamedTuple):
    """What no step exceeds. decode_query_len: tokens of a decode, 1 and the drafts."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    block_size: int
    decode_query_len: int = 1


@dataclass
class Graph:
    """One recording, the buffers that it reads, and hidden, [num_tokens, hidden_size], which it
    writes. plans: their memory stays. breaking: where it breaks at attention.
    """

    key: Key
    recording: Recording
    buffers: StepBuffers
    block_tables: list[Tensor] = field(default_factory=list)  # by group
    tables: list[Tiles] = field(default_factory=list)  # by kind of attention
    plans: Any = ()
    breaking: BreakingAttention | None = None
    hidden: Tensor = field(default_factory=lambda: torch.empty(0))
    addresses: dict[str, int] = field(default_factory=dict)


class Graphs:
    """Recordings of a model's forward by key.

    mode is what the back end leaves of the mode that was asked for. layer_groups: as in
    PagedAttention.
    """

    def __init__(
        self,
        mode: CUDAGraphMode,
        model: DecoderModel,
        backend: AttentionBackend,
        kv_caches: Sequence[KVCache],
        layer_groups: Sequence[int],
        limits: GraphLimits,
        device: torch.device,
    ) -> None:
        self.model, self.eager_backend = model, backend
        self.kv_caches, self.limits, self.device = kv_caches, limits, device
        self.layer_groups = layer_groups or (0,) * model.num_layers
        self.backend, self.support = recordable(backend, model.attention_specs)
        self.mode = lower(mode, self.support, limits.decode_query_len)
        self.is_checked = device.type == "cpu" or backend.debug
        # equal layers share their tiles in all groups
        self.kinds: list[AttentionSpec] = list(dict.fromkeys(model.attention_specs))
        columns = -(-limits.max_model_len // limits.block_size)
        self.tables = [
            DeviceTables(group, 2 * limits.max_num_seqs, columns, device)
            for group in range(max(self.layer_groups) + 1)
        ]
        length = limits.decode_query_len
        self.dispatcher = CudagraphDispatcher(
            self.mode,
            capture_sizes(limits.max_num_seqs, limits.max_num_batched_tokens, length),
            limits.max_num_seqs,
            length,
        )
        self.pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None
        self.graphs: dict[Key, Graph] = {}

    @torch.inference_mode()
    def capture(self) -> None:
        """Record all keys, the largest first. Called once, before the first step."""
        for key in self.dispatcher.capture_keys():
            self.graphs[key] = self._record(key)

    # --- the four verbs ---------------------------------------------------------------------------

    def can_use(self, packed: PackedStep, batch: GraphBatch) -> Graph | None:
        """The recording that serves this step; None where it has to run eagerly.

        packed: its tensors are the host's.
        """
        is_uniform = batch.uniform_query_len == self.limits.decode_query_len
        key = self.dispatcher.dispatch(len(packed.input_ids), is_uniform)
        if key[0] is CUDAGraphMode.FULL and max(batch.rows) >= self.tables[0].num_rows:
            return None
        return self.graphs.get(key)

    def pad(self, graph: Graph, packed: PackedStep, batch: GraphBatch) -> None:
        """Bring the step into the recording's buffers, and nothing into their other rows: one
        upload.
        """
        graph.buffers.wait()
        write = graph.buffers.write
        write("input_ids", packed.input_ids)
        write("positions", packed.metadata[0].positions)
        write("sample_rows", packed.sample_rows)
        if graph.breaking is None:
            write("rows", batch.rows)
            write("seq_lens", packed.metadata[0].seq_lens)
            for g, (tables, metadata) in enumerate(zip(self.tables, packed.metadata, strict=True)):
                write(f"slot_mapping {g}", metadata.slot_mapping)
                new = tables.new_ids(batch.synced, batch.rows)
                if len(new) > len(graph.buffers.host[f"new_ids {g}"]):
                    tables.send(new)
                    new = new[:0]
                write(f"new_ids {g}", new)
            self._write_tiles(graph, packed.metadata[0])
        else:
            graph.breaking.num_tokens = len(packed.input_ids)
            graph.breaking.step = self._attention(
                self.eager_backend, [on_device(each, self.device) for each in packed.metadata]
            )
        graph.buffers.upload()

    @torch.inference_mode()
    def replay(self, graph: Graph) -> Tensor:
        """Run the recording: final hidden states of the padded batch, [num_tokens, hidden_size].

        They are good until the next replay. Raises MovedBufferError where a buffer is no longer the
        one that was recorded; on a GPU only with the back end's debug checks.
        """
        if self.is_checked:
            for name, tensor in self._memory(graph):
                if graph.addresses.get(name) != address_of(tensor):
                    raise MovedBufferError(
                        f"{name} has moved since {graph.key[0].name} of {graph.key[1].num_tokens} "
                        "tokens was recorded: record again"
                    )
        graph.recording.replay()
        return graph.hidden

    def destroy(self) -> None:
        """Give all recordings back; every step then runs eagerly."""
        self.graphs.clear()
        self.pool = None

    # --- what they are made of --------------------------------------------------------------------

    def sync(self, batch: GraphBatch) -> None:
        """Bring the block ids of a step that is not replayed to the device, where later ones look
        for them.
        """
        for tables in self.tables:
            tables.send(tables.new_ids(batch.synced, batch.rows))

    def _record(self, key: Key) -> Graph:
        mode, batch = key
        is_full = mode is CUDAGraphMode.FULL
        metadata = [
            static_metadata(batch, tables, self.limits, self.device)
            for tables in self.tables
            if is_full
        ]
        # only to know how large the tables of tiles are
        sizes = tables_of([self.backend.plan(metadata[0], spec) for spec in self.kinds if is_full])
        buffers = StepBuffers(self._fields(batch, sizes), self.device)
        graph = Graph(key, self._recording(), buffers)
        attend: PagedAttention
        if is_full:
            inputs = buffers.device
            metadata = [
                replace(
                    each,
                    positions=inputs["positions"],
                    seq_lens=inputs["seq_lens"],
                    slot_mapping=inputs[f"slot_mapping {g}"],
                )
                for g, each in enumerate(metadata)
            ]
            graph.block_tables = [each.block_tables for each in metadata]
            attend = self._attention(self.backend, metadata)
            graph.plans = attend.plans
            of_kind = dict(zip(self.model.attention_specs, attend.plans, strict=True))
            graph.tables = tables_of([of_kind[kind] for kind in self.kinds])
        else:
            attend = graph.breaking = BreakingAttention(graph.recording.break_at)
        if self.device.type == "cuda":  # kernels are compiled outside
            self._run(graph, attend if is_full else BreakingAttention(lambda call: call()))
        with graph.recording:
            graph.hidden = self._run(graph, attend)
        graph.addresses = {name: address_of(each) for name, each in self._memory(graph)}
        return graph

    def _run(self, graph: Graph, attend: PagedAttention) -> Tensor:
        """All that the device does: new block ids, the tables of this step, and the forward."""
        inputs = graph.buffers.device
        for g, into in enumerate(graph.block_tables):
            self.tables[g].put(inputs[f"new_ids {g}"])
            torch.index_select(self.tables[g].ids, 0, inputs["rows"], out=into)
        for i, tables in enumerate(graph.tables):
            for name in TABLES:
                getattr(tables, name).copy_(inputs[f"{name} {i}"])
        return self.model.forward(inputs["input_ids"], inputs["positions"], attend)

    def _recording(self) -> Recording:
        return CUDARecording(self.pool) if self.device.type == "cuda" else CPURecording()

    def _attention(
        self, backend: AttentionBackend, metadata: Sequence[AttentionMetadata]
    ) -> PagedAttention:
        return PagedAttention(
            backend, self.kv_caches, metadata, self.model.attention_specs, self.layer_groups
        )

    def _fields(self, batch: BatchDescriptor, tables: Sequence[Tiles]) -> dict[str, Field]:
        """The buffers of a key; where attention is recorded, too, its num_reqs is known."""
        n, num_reqs = batch.num_tokens, batch.num_reqs
        fields = dict.fromkeys(("input_ids", "positions", "sample_rows"), Field(torch.int64, [n]))
        if num_reqs is None:
            return fields
        new_ids = num_reqs * (2 + n // num_reqs // self.limits.block_size)
        nobody = self.tables[0].num_rows
        fields["rows"] = Field(torch.int64, [num_reqs], nobody)
        fields["seq_lens"] = Field(torch.int32, [num_reqs])
        for g in range(len(self.tables)):
            fields[f"slot_mapping {g}"] = Field(torch.int64, [n], -1)
            fields[f"new_ids {g}"] = Field(torch.int64, [new_ids, 3], [nobody, 0, 0])
        for i, each in enumerate(tables):
            for name in TABLES:
                padding = 0 if name == "merges" else NO_TILE
                fields[f"{name} {i}"] = Field(torch.int32, getattr(each, name).shape, padding)
        return fields

    def _write_tiles(self, graph: Graph, batch: AttentionMetadata) -> None:
        """Cut the padded batch, on the host, and put the cut into the buffers."""
        if not graph.tables:
            return
        key = graph.key[1]
        query_len = self.limits.decode_query_len
        more = (key.num_reqs or 0) - len(batch.seq_lens_cpu)
        if not key.uniform:  # one request has all rows that pad
            query_len = key.num_tokens - len(batch.positions)
            more = min(query_len, 1)
        padded = replace(
            batch,
            query_lens_cpu=np.pad(batch.query_lens_cpu, (0, more), constant_values=query_len),
            seq_lens_cpu=np.pad(batch.seq_lens_cpu, (0, more)),
        )
        for i, spec in enumerate(self.kinds):
            (tables,) = tables_of(self.backend.plan(padded, spec))
            for name in TABLES:
                graph.buffers.write(f"{name} {i}", getattr(tables, name))

    def _memory(self, graph: Graph) -> Iterator[tuple[str, Tensor]]:
        """All that a recording reads and that a caller might replace, by name."""
        yield from graph.buffers.device.items()
        for g, tables in enumerate(self.tables):
            yield f"block_tables {g}", tables.ids
        yield from memory_of(self.model, self.kv_caches)


def static_metadata(
    batch: BatchDescriptor, tables: DeviceTables, limits: GraphLimits, device: torch.device
) -> AttentionMetadata:
    """A batch of the most work that this key may be, on memory that stays."""
    num_tokens, num_reqs = batch.num_tokens, batch.num_reqs
    assert num_reqs is not None
    length = num_tokens // num_reqs
    nothing = torch.zeros(num_tokens, dtype=torch.int64, device=device)
    starts = torch.arange(num_reqs + 1, dtype=torch.int32, device=device) * length
    return AttentionMetadata(
        positions=nothing,
        slot_mapping=nothing,
        query_start_loc=starts,
        seq_lens=torch.zeros_like(starts[1:]),
        block_tables=torch.zeros_like(tables.ids[:1]).repeat(num_reqs, 1),
        block_size=limits.block_size,
        query_lens_cpu=np.full(num_reqs, length, np.int64),
        seq_lens_cpu=np.full(num_reqs, most_tiles(limits.max_model_len, length), np.int64),
        is_bound=not batch.uniform,
    )


def most_tiles(max_model_len: int, query_len: int) -> int:
    """The length of a sequence that is cut into the most tiles, with a window or without: one whose
    last token begins a span.
    """
    longest = min(max_model_len, tiles.SPLIT * tiles.MAX_SPLITS)
    return max(query_len, (longest - 1) // tiles.SPLIT * tiles.SPLIT + 1)


def memory_of(model: DecoderModel, kv_caches: Sequence[KVCache]) -> Iterator[tuple[str, Tensor]]:
    """The weights and the KV cache, by name."""
    for i, (key_cache, value_cache) in enumerate(kv_caches):
        yield f"key_cache {i}", key_cache
        yield f"value_cache {i}", value_cache
    for path, module in model.named_modules():
        for name, value in chain(vars(module).items(), module.named_parameters(recurse=False)):
            if isinstance(value, Tensor):
                yield f"{path}.{name}", value


def tables_of(plans: Any) -> list[Tiles]:
    """The tiles in plans of a back end, if it cuts a batch into tiles."""
    leaves = tree_leaves(plans, is_leaf=lambda x: isinstance(x, Tiles))
    return [leaf for leaf in leaves if isinstance(leaf, Tiles)]


def address_of(x: Tensor) -> int:
    """Where a tensor begins; a packed weight, which does not say it, is known by itself."""
    return id(x) if x.is_mkldnn else x.data_ptr()
