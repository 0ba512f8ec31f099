"""nano-vllm's own rules, where prefill_first has different ones. The option nano_vllm says whose:
"first" or "newest".

"first" is nano-vllm's commit a5a4909e6a01 (June 2025), "newest" its commit bb823b3e0698 (April
2026). Every decision, every block id and every prefix hit is theirs in the recorded traces
(traces/nano-vllm). Theirs is:

    rule                                   first               newest              prefill_first
    max_num_seqs limits                    a step              a step              running requests
    a decode pays                          nothing             nothing             one token
    what has to fit into the budget        the whole sequence  what it computes    what it computes
    the first of a step may be cut         no                  yes                 yes
    blocks of a request that is cut        -                   all at once         as its chunks go
    a hit that is held needs a free block  yes                 no                  no
    a decode wants a free block            always              if it needs one     if it needs one
    a block can be found                   when allocated      after the step      when allocated
    of blocks with equal content answers   the last            the last            the first
    a freed block goes to the              back                back                unhashed: front
    a table is freed from its              head                tail                tail

So more requests may run than max_num_seqs. Those behind the first max_num_seqs get no token until
one of these ends.

Three things are no option. nano-vllm asserts that something is scheduled, and fails where a prompt
is larger than the budget (first) or the pool, and where a request alone has no block left: here a
prompt is cut or refused, and one that is alone wants no block that it does not need. The first
version finds a prompt whole in its cache and then has nothing to compute: here the last token is
always computed. It also finds a block again by a hash that the block has lost, if its tokens happen
to be the same: here such a block is not found. Source: nanovllm/engine/scheduler.py,
block_manager.py and sequence.py of https://github.com/GeeeekExplorer/nano-vllm.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.kv_cache import PART, KVCacheManager
from mini_vllm.policies.prefill_first import PrefillFirstScheduler, in_prefill
from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerOutput
from mini_vllm.step import KVResult

FIRST, NEWEST = "first", "newest"


class NanoVllmBlockPool(BlockPool):
    """Free blocks stand in the order in which they were freed.

    Of blocks with equal content one can be found.
    """

    def __init__(self, num_blocks: int, *, head_first: bool) -> None:
        super().__init__(num_blocks)
        self.head_first = head_first

    def cache_block(self, block: KVCacheBlock, block_hash: Hashable) -> None:
        """From now on this block answers for its content, and no other does, even after this one is
        taken.
        """
        self.uncache_hash(block_hash)
        super().cache_block(block, block_hash)

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        freed = []
        for block in table if self.head_first else reversed(table):
            assert block.ref_cnt > 0, f"{block} is freed more often than it is held"
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                freed.append(block)
        self.free_queue.append_n(freed)


@dataclass(eq=False, repr=False, kw_only=True)
class NanoVllmKVCacheManager(KVCacheManager):
    """nano-vllm's BlockManager.

    Raises InvalidParameterError for a version that is neither "first" nor "newest".
    """

    nano_vllm: str = NEWEST
    """Which version."""

    def __post_init__(self) -> None:
        super().__post_init__()
        nano_vllm = self.nano_vllm
        if nano_vllm not in (FIRST, NEWEST):
            raise InvalidParameterError(
                f"nano_vllm must be 'first' or 'newest', got {shown(nano_vllm)}"
            )
        self.block_pool = NanoVllmBlockPool(self.num_blocks, head_first=nano_vllm == FIRST)
        # What the step fills, in its order: the request, its table, and which blocks.
        self._unpublished: dict[str, tuple[Request, list[KVCacheBlock], int, int]] = {}

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """In the first version a decode also wants a free block, needed or not, unless it is alone.

        In the newest a request gets slots for all that it has, though it computes only
        num_new_tokens of them.
        """
        start = request.num_computed_tokens + len(computed_blocks) * self.block_size
        # the step fills the blocks before this one
        self._end = (start + num_new_tokens) // self.block_size
        if self.nano_vllm == NEWEST:
            num_new_tokens = max(num_new_tokens, request.num_tokens - start)
        elif (
            request.num_computed_tokens
            and not in_prefill(request)
            and not self.num_free_blocks
            and len(self._tables) > 1
        ):
            return None
        return super().allocate_slots(request, num_new_tokens, computed_blocks)

    def free(self, request: Request) -> None:
        self._unpublished.pop(request.request_id, None)
        super().free(request)

    def end_step(self, result: KVResult | None) -> None:
        """The newest version publishes what a step has filled when it went well, unless the table
        is gone.
        """
        for request, table, start, end in self._unpublished.values() if result is not None else ():
            if self._tables.get(request.request_id) is table:
                super()._cache_blocks(request, start, end)
        self._unpublished.clear()

    def exchange_notes(self, notes: Any) -> Any:
        present, self._unpublished = self._unpublished, notes or {}
        return present

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        if self.nano_vllm == FIRST:
            super()._cache_blocks(request, start, end)
        else:
            name = request.request_id
            self._unpublished[name] = request, self._tables[name], start, self._end


@dataclass(eq=False, repr=False, kw_only=True)
class NanoVllmScheduler(PrefillFirstScheduler):
    """nano-vllm's Scheduler.

    Raises InvalidParameterError for a KV cache manager of another version.
    """

    kv_cache_manager_cls = NanoVllmKVCacheManager
    policies = ("fcfs",)

    nano_vllm: str = NEWEST
    """Which version."""
    charge_cached_tokens: bool = field(default=False, init=False, metadata=PART)

    def __post_init__(self) -> None:
        super().__post_init__()
        if getattr(self.kv_cache_manager, "nano_vllm", None) != self.nano_vllm:
            raise InvalidParameterError(
                f"nano_vllm {shown(self.nano_vllm)} needs a KV cache manager of it, "
                f"got {type(self.kv_cache_manager).__name__}"
            )

    def _schedule_running(
        self, requests: Sequence[Request], output: SchedulerOutput, token_budget: int
    ) -> int:
        """As in V1, for the first max_num_seqs; decodes are not held to the budget."""
        requests = requests[: self.max_num_seqs]
        if not any(map(in_prefill, requests)):
            token_budget = max(token_budget, len(requests))
        return super()._schedule_running(requests, output, token_budget)

    def _has_place(self, output: SchedulerOutput) -> bool:
        """A place is taken for one step, so more requests may run than there are places."""
        return len(output.scheduled_requests) < self.max_num_seqs

    def _hits_must_fit(self) -> bool:
        """In the first version the hits have to fit, and cost nothing all the same."""
        return self.nano_vllm == FIRST

    def _may_admit(
        self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]
    ) -> bool:
        """The first version wants as many free blocks as the sequence has, as if no request held
        any of them.
        """
        return super()._may_admit(
            request, num_tokens, () if self.nano_vllm == FIRST else computed_blocks
        )
