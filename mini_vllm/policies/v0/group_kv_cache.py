"""The KV cache of groups: sequences fork, and a group that is preempted may lie in main memory
until it is back.

A block that several sequences of a group share is copied once, and shared again when it comes back.
Source: swap_out and swap_in of BlockSpaceManager in vLLM V0 (vllm/core/block_manager.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from mini_vllm.offload.host_memory import HostMemoryPool
from mini_vllm.policies.v0.fork import ForkingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import CpuBlockId, KVPlan, SwapIn


@dataclass(eq=False, repr=False, kw_only=True)
class GroupKVCacheManager(ForkingKVCacheManager):
    """A ForkingKVCacheManager with num_cpu_blocks blocks of main memory for the groups that are
    preempted.

    The CPU blocks of a request are free as soon as it is back or has ended. So no request is
    brought back in a step before which another one was stored: copies out come first.
    """

    num_cpu_blocks: int = 0
    """Blocks of main memory for the groups that are preempted."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.cpu_pool = HostMemoryPool(self.num_cpu_blocks)
        # to block; a CPU block that was given up may be taken again
        self._swap_out: dict[CpuBlockId, int] = {}
        self._swap_in: dict[SwapIn, None] = {}

    def begin_step(self) -> KVPlan:
        """The copies of the step. Each is told once."""
        swap_out = tuple((block, cpu_block) for cpu_block, block in self._swap_out.items())
        plan = replace(super().begin_step(), swap_out=swap_out, swap_in=tuple(self._swap_in))
        self._swap_out, self._swap_in = {}, {}
        return plan

    def free(self, request: Request) -> None:
        """Give back the request's blocks, and its CPU blocks too."""
        super().free(request)
        self.cpu_pool.free(request.request_id)

    def store(self, requests: Sequence[Request]) -> bool:
        """Move the tables of a group to the pool; False, with nothing changed, if they do not all
        fit there.
        """
        tables = {
            request.request_id: self.get_block_ids(request.request_id) for request in requests
        }
        if len(set(chain(*tables.values()))) > self.cpu_pool.num_free_blocks:
            return False
        places: dict[int, CpuBlockId] = {}
        for request in requests:
            super().free(request)
            pairs = self.cpu_pool.store(request.request_id, tables[request.request_id], places)
            assert pairs is not None
            places.update(pairs)
        self._swap_out.update((cpu_block, block) for block, cpu_block in places.items())
        return True

    def num_blocks_to_restore(self, requests: Sequence[Request]) -> int:
        """How many free blocks V0 wants to bring a stored group back: its own, and one for each
        sequence to go on.

        A sequence whose last block has room for its next token goes on without a new one.
        """
        tables = [self.cpu_pool.get_block_ids(request.request_id) for request in requests]
        return len(set(chain(*tables))) + len(requests)

    def restore(self, requests: Sequence[Request]) -> None:
        """Bring a stored group back, into new blocks.

        Raises ValueError, with nothing changed, if too few are free.
        """
        self.rebuild(
            {
                request.request_id: self.cpu_pool.get_block_ids(request.request_id)
                for request in requests
            }
        )
        for request in requests:
            pairs = self.cpu_pool.fetch(request.request_id, self.get_block_ids(request.request_id))
            self._swap_in.update(dict.fromkeys(pairs))
            self.cpu_pool.free(request.request_id)
