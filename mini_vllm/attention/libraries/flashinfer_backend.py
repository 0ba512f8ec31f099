"""The rung of FlashInfer, a library of attention kernels for GPUs (Ye et al. 2025).

FlashInfer, too, plans a step on the host and runs each layer on the device. A wrapper object has
the plan: its decode wrapper for a batch of decodes alone, its prefill wrapper, which takes decodes
as chunks of one, for any other. Both read the paged cache as it lies here, which FlashInfer calls
the layout NHD. Rotation and cache write stay those of the Triton rung.

Written against flashinfer-python 0.7.2: BatchDecodeWithPagedKVCacheWrapper in decode.py and
BatchPrefillWithPagedKVCacheWrapper in prefill.py. vLLM: vllm/v1/attention/backends/flashinfer.py.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from weakref import finalize

import flashinfer
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mini_vllm.attention.libraries.needs import refuse_specs
from mini_vllm.attention.metadata import AttentionMetadata, AttentionSpec, ragged, to_device
from mini_vllm.attention.triton_backend import TritonBackend

LAYOUT = "NHD"  # a page is [block_size, num_kv_heads, head_dim]
HEAD_DIMS = (64, 128, 256)
WORKSPACE = 394 << 20  # bytes, for partial results; vLLM: VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE


@dataclass(frozen=True, eq=False)
class FlashInferPlan:
    """A wrapper that has planned a step, and the rows of the batch that it computes."""

    wrapper: Any  # None for a step that has nothing to attend to
    rows: slice | Tensor


class FlashInferBackend(TritonBackend):
    """Attention by FlashInfer, rotation and cache write in one Triton kernel."""

    name = "flashinfer"
    supports_sinks = False
    cudagraph_support = "NEVER"  # a plan chooses its launch by the lengths of the step

    def __init__(self) -> None:
        super().__init__()
        self._workspace: Tensor | None = None
        # by kind: wrappers that no plan has, each with an event behind its last upload
        self._free: defaultdict[str, list[tuple[Any, torch.cuda.Event | None]]] = defaultdict(list)

    def check_layers(self, specs: Iterable[AttentionSpec]) -> None:
        """FlashInfer has kernels for a few widths of a head."""
        super().check_layers(specs)
        refuse_specs(self.name, specs, HEAD_DIMS)

    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> Any:
        """Pages of every request end to end, and the plan that FlashInfer makes of them.

        Requests of no tokens or no keys are left out: FlashInfer has no padding.
        """
        query_lens, seq_lens = metadata.query_lens_cpu, metadata.seq_lens_cpu
        real = np.flatnonzero((query_lens > 0) & (seq_lens > 0))
        if not len(real):
            return FlashInferPlan(None, slice(0, 0))
        device, block_size = metadata.block_tables.device, metadata.block_size
        num_pages = -(-seq_lens[real] // block_size)
        owner, column = ragged(num_pages)
        place = real[owner] * metadata.block_tables.shape[1] + column
        pages = metadata.block_tables.flatten().index_select(0, to_device(place, device))
        is_decode = bool((query_lens[real] == 1).all())
        kind = "Decode" if is_decode else "Prefill"
        lengths = () if is_decode else (starts(query_lens[real], device),)
        last_page_lens = on_host((seq_lens[real] - 1) % block_size + 1, device)
        wrapper = self._take(kind, device)
        wrapper.plan(
            *lengths,
            starts(num_pages, device),
            pages,
            last_page_lens,
            spec.num_heads,
            spec.num_kv_heads,
            spec.head_dim,
            block_size,
            **({} if is_decode else {"causal": True}),
            sm_scale=spec.scale,
            window_left=(spec.sliding_window or 0) - 1,  # keys before the query's own; -1 is all
            q_data_type=spec.dtype,
            kv_data_type=spec.dtype,
        )
        plan = FlashInferPlan(wrapper, rows_of(query_lens, real, device))
        finalize(plan, self._free[kind].append, (wrapper, event_on(device)))
        return plan

    def update_block_table(
        self, plan: Any, metadata: AttentionMetadata, spec: AttentionSpec
    ) -> Any:
        """A wrapper has the pages in its plan."""
        return self.plan(metadata, spec)

    def _take(self, kind: str, device: torch.device) -> Any:
        """A wrapper that no plan has.

        A wrapper uploads its plan from pinned memory, which is not written again before that copy
        is done.
        """
        if self._free[kind]:
            wrapper, event = self._free[kind].pop(0)
            if event:
                event.synchronize()
            return wrapper
        if self._workspace is None:
            self._workspace = torch.zeros(WORKSPACE, dtype=torch.uint8, device=device)
        cls = getattr(flashinfer, f"Batch{kind}WithPagedKVCacheWrapper")
        # FlashInfer's kernel for decodes on tensor cores takes any number of heads in a group
        options = {"use_tensor_cores": True} if kind == "Decode" else {}
        return cls(self._workspace, LAYOUT, **options)

    def attend(self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: Any) -> Tensor:
        """One run of the wrapper; rows that it does not have become 0."""
        caches = key_cache, value_cache
        if plan.rows == slice(0, len(query)):
            return plan.wrapper.run(query, caches) if plan.wrapper else torch.zeros_like(query)
        output = torch.zeros_like(query)
        if plan.wrapper:
            output[plan.rows] = plan.wrapper.run(query[plan.rows], caches)
        return output


def rows_of(
    query_lens: npt.NDArray[np.int64], real: npt.NDArray[np.int64], device: torch.device
) -> slice | Tensor:
    """The rows of the requests `real`: a slice where they are the first ones."""
    owner, place = ragged(query_lens[real])
    rows = (np.cumsum(query_lens) - query_lens)[real][owner] + place
    return slice(0, len(rows)) if rows[-1] == len(rows) - 1 else to_device(rows, device)


def starts(lengths: npt.NDArray[np.int64], device: torch.device) -> Tensor:
    """[B + 1] int32: where each begins, and the end."""
    return on_host(np.concatenate(([0], np.cumsum(lengths))), device)


def on_host(array: npt.NDArray[np.int64], device: torch.device) -> Tensor:
    """int32 on the host, which FlashInfer's planner reads; pinned, its copy needs no wait."""
    tensor = torch.from_numpy(array.astype(np.int32))
    return tensor.pin_memory() if device.type == "cuda" else tensor


def event_on(device: torch.device) -> torch.cuda.Event | None:
    """What has been asked of the device up to here."""
    if device.type != "cuda":
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record()
    return event
