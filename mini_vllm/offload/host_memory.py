"""Main memory as the second place of the KV cache: a pool of CPU blocks, and the connector over it.

Only names move here. The pairs go into the KVPlan of the step, and the CacheEngine copies. Source:
the CPU allocator and swap_out/swap_in of BlockSpaceManager in vLLM V0 (vllm/core/block_manager.py);
V1 has none.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.connector import KVConnector, Lookup
from mini_vllm.request import Request
from mini_vllm.step import CpuBlockId, KVPlan, KVResult, SwapIn, SwapOut


class HostMemoryPool:
    """Which blocks of main memory hold the table of which request.

    There are num_blocks CPU blocks, numbered from 0, and no null block. A table is held from
    store() to free(), and a CPU block by as many tables as share it. Raises InvalidParameterError
    for a negative num_blocks.
    """

    def __init__(self, num_blocks: int) -> None:
        if num_blocks < 0:
            raise InvalidParameterError(f"num_cpu_blocks must be at least 0, got {num_blocks}")
        self.num_blocks = num_blocks
        # the last one is taken next
        self._free = [CpuBlockId(i) for i in reversed(range(num_blocks))]
        self._ref_cnt: Counter[CpuBlockId] = Counter()
        self._tables: dict[str, list[CpuBlockId]] = {}

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._tables

    @property
    def num_free_blocks(self) -> int:
        return len(self._free)

    def get_block_ids(self, request_id: str) -> list[CpuBlockId]:
        """The CPU blocks of the request, in the order of its table; [] when it holds none."""
        return list(self._tables.get(request_id, ()))

    def store(
        self,
        request_id: str,
        block_ids: Sequence[int],
        shared: Mapping[int, CpuBlockId] | None = None,
    ) -> list[SwapOut] | None:
        """Hold CPU blocks for a table; returns the copies to make, (block, CPU block), or None,
        with nothing changed.

        shared: where blocks that this table has in common with other tables of the step already go,
        block -> CPU block; they are held once more, and not copied again. For a group, let `shared`
        grow by dict(pairs) of each.
        """
        assert request_id not in self._tables, f"{request_id!r} is stored already"
        places = dict(shared or {})
        new = [block_id for block_id in block_ids if block_id not in places]
        if len(new) > len(self._free):
            return None
        pairs = [(block_id, self._free.pop()) for block_id in new]
        places.update(pairs)
        self._tables[request_id] = [places[block_id] for block_id in block_ids]
        self._ref_cnt.update(self._tables[request_id])
        return pairs

    def fetch(self, request_id: str, block_ids: Sequence[int], start: int = 0) -> list[SwapIn]:
        """The copies, (CPU block, block), that fill block_ids from CPU blocks [start, start + len)
        of the table.

        The table stays here until free(), so that a step that fails can still fall back to it.
        After it is freed in the step that copies, nothing may be stored in that step: copies out
        come first.
        """
        cpu_block_ids = self._tables[request_id][start : start + len(block_ids)]
        return list(zip(cpu_block_ids, block_ids, strict=True))

    def free(self, request_id: str) -> None:
        """Let go of the request's CPU blocks; one that holds none is left alone."""
        for block_id in reversed(self._tables.pop(request_id, [])):
            self._ref_cnt[block_id] -= 1
            if not self._ref_cnt[block_id]:
                del self._ref_cnt[block_id]
                self._free.append(block_id)


class HostMemoryConnector(KVConnector):
    """A preempted request's K and V lie in the pool until it is back: swapping, in the words of V0
    and of the paper.

    A request is in the pool from save() to the step that brings it back and goes well. What goes
    out in a step that fails is forgotten, since it may never have arrived; what was to come in is
    still there.
    """

    def __init__(self, num_blocks: int) -> None:
        self.pool = HostMemoryPool(num_blocks)
        # by request: how many of its first tokens lie in the pool
        self._num_tokens: dict[str, int] = {}
        # The copies of the coming step, by request: they stay until the step has ended.
        self._saving: dict[str, list[SwapOut]] = {}
        self._loading: dict[str, list[SwapIn]] = {}

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        num_tokens = self._num_tokens.get(request.request_id, 0)
        return Lookup(max(num_tokens - num_computed_tokens, 0))

    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        request_id = request.request_id
        if request_id in self._num_tokens:
            self._loading[request_id] = self.pool.fetch(request_id, block_ids, start)

    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        """Keep all blocks, or none if they do not all fit in."""
        request_id = request.request_id
        if request_id in self._num_tokens:  # it was about to come back when the step failed
            return
        pairs = self.pool.store(request_id, block_ids)
        if pairs is not None:
            self._saving[request_id] = pairs
            self._num_tokens[request_id] = request.num_computed_tokens

    def request_finished(self, request: Request) -> None:
        self._forget(request.request_id)

    def begin_step(self) -> KVPlan:
        return KVPlan(tuple(chain(*self._saving.values())), tuple(chain(*self._loading.values())))

    def end_step(self, result: KVResult | None) -> None:
        for request_id in list(self._saving if result is None else self._loading):
            self._forget(request_id)
        self._saving.clear()
        self._loading.clear()

    def exchange_notes(self, notes: Any) -> Any:
        present = self._saving, self._loading
        self._saving, self._loading = notes or ({}, {})
        return present

    def _forget(self, request_id: str) -> None:
        self._num_tokens.pop(request_id, None)
        self.pool.free(request_id)
        self._saving.pop(request_id, None)  # its CPU blocks may be another's in this very step
