#!/usr/bin/env python3
"""What the recorded traces can see: break one rule of the scheduler at a time and count the traces that notice.

    python tools/trace_power.py [--write]

Every class below is mini_vllm's scheduler, KV cache manager or block pool with one rule broken; its docstring says
which. A rule that fewer than three traces notice is not guarded, and the exit status is 1. --write puts the table into
traces/README.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from labkit.compare.replay import find_trace_files, read_traces, replay  # noqa: E402
from mini_vllm.block_pool import BlockPool, KVCacheBlock  # noqa: E402
from mini_vllm.kv_cache import KVCacheManager  # noqa: E402
from mini_vllm.request import Request, RequestStatus  # noqa: E402
from mini_vllm.scheduler import Scheduler, SchedulerOutput  # noqa: E402
from tools.record_vllm_traces import write_section  # noqa: E402

AT_LEAST = 3


# --- the block pool --------------------------------------------------------------------------------------------------


class FreeForward(BlockPool):
    """a block table is freed head first"""

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        super().free_blocks(list(reversed(table)))


class FreeAppendAll(BlockPool):
    """every freed block goes to the back of the queue, hashed or not"""

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        for block in reversed(table):
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                self.free_queue.append_n([block])


class FreePrependAll(BlockPool):
    """every freed block goes to the front of the queue, hashed or not"""

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        for block in table:
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                self.free_queue.prepend_n([block])


class DedupCached(BlockPool):
    """of blocks with equal content only the first is cached"""

    def cache_block(self, block: KVCacheBlock, block_hash: Hashable) -> None:
        if self.get_cached_block(block_hash) is None:
            super().cache_block(block, block_hash)


class EvictAllEquals(BlockPool):
    """evicting one of several blocks with equal content forgets them all"""

    def uncache_block(self, block: KVCacheBlock) -> None:
        if block.block_hash is not None:
            self.uncache_hash(block.block_hash)


class HitLast(BlockPool):
    """of blocks with equal content the one cached last answers"""

    def get_cached_block(self, block_hash: Hashable) -> KVCacheBlock | None:
        same = self._cached.get(block_hash)
        return list(same.values())[-1] if same else None


class EvictAtFree(BlockPool):
    """a freed block loses its content at once"""

    def free_blocks(self, table: Sequence[KVCacheBlock]) -> None:
        super().free_blocks(table)
        for block in table:
            if block.ref_cnt == 0:
                self.uncache_block(block)


class NoNull(BlockPool):
    """block 0 is handed out like any other"""

    def __init__(self, num_blocks: int) -> None:
        super().__init__(num_blocks)
        self.free_queue.prepend_n([self.null_block])


# --- the KV cache manager --------------------------------------------------------------------------------------------


class NoHitCap(KVCacheManager):
    """a hit may cover all tokens, the last one too"""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        return _hits(self, request, request.num_tokens)


class HitPromptOnly(KVCacheManager):
    """the lookup looks at the prompt alone, not at tokens generated before a preemption"""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        return _hits(self, request, min(request.num_prompt_tokens, request.num_tokens - 1))


class HitWholeBlockLess(KVCacheManager):
    """the last full block is never hit"""

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        return _hits(self, request, request.num_tokens - 1 - self.block_size)


class HitsFree(KVCacheManager):
    """a hit on a block in the free queue does not count as a block needed"""

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        needed = super().num_blocks_needed(request, num_tokens, computed_blocks)
        return needed - sum(block.ref_cnt == 0 for block in computed_blocks)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        if computed_blocks:  # take the hits first, so that the arithmetic of the original holds
            num_tokens = len(computed_blocks) * self.block_size + num_new_tokens
            if self.num_blocks_needed(request, num_tokens, computed_blocks) > self.num_free_blocks:
                return None
            self.block_pool.touch(computed_blocks)
            blocks = super().allocate_slots(request, num_new_tokens, computed_blocks)
            for block in computed_blocks:
                block.ref_cnt -= 1
            assert blocks is not None, "the pool is overdrawn"
            return blocks
        return super().allocate_slots(request, num_new_tokens, computed_blocks)


class FitIgnoresHits(KVCacheManager):
    """the fit check counts all blocks of the sequence, those that are hit and held too"""

    is_checking = True

    def num_blocks_needed(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()) -> int:
        held = sum(block.ref_cnt > 0 for block in computed_blocks) if self.is_checking else 0
        return super().num_blocks_needed(request, num_tokens, computed_blocks) + held

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        num_tokens = len(computed_blocks) * self.block_size + num_new_tokens
        if computed_blocks and self.num_blocks_needed(request, num_tokens, computed_blocks) > self.num_free_blocks:
            return None
        self.is_checking = False
        blocks = super().allocate_slots(request, num_new_tokens, computed_blocks)
        self.is_checking = True
        return blocks


class AbortDropsHashes(KVCacheManager):
    """an abort withdraws the hashes of the step in flight"""

    def free(self, request: Request) -> None:
        table = list(self._tables.get(request.request_id, ()))
        super().free(request)
        if request.status is RequestStatus.FINISHED_ABORTED:
            for block in table[request.num_computed_tokens // self.block_size :]:
                self.block_pool.uncache_block(block)


class UncacheBeforeRelease(KVCacheManager):
    """hashes of blocks never computed are withdrawn before the blocks are freed"""

    def free(self, request: Request) -> None:
        if not request.is_finished:
            for block in self._tables.get(request.request_id, [])[request.num_computed_tokens // self.block_size :]:
                self.block_pool.uncache_block(block)
        super().free(request)


class CachePublishesNothing(KVCacheManager):
    """(helper of CacheLate)"""

    def _cache_blocks(self, request: Request, start: int, end: int) -> None:
        pass


def _hits(kv: KVCacheManager, request: Request, num_tokens: int) -> tuple[list[KVCacheBlock], int]:
    blocks: list[KVCacheBlock] = []
    if kv.enable_prefix_caching:
        for block_hash in kv._block_hashes(request)[: max(num_tokens, 0) // kv.block_size]:
            block = kv.block_pool.get_cached_block(block_hash)
            if block is None:
                break
            blocks.append(block)
    return blocks, len(blocks) * kv.block_size


# --- the scheduler ---------------------------------------------------------------------------------------------------


class CacheLate(Scheduler):
    """a block is cached after it was computed, not when it is allocated"""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        kv = self.kv_cache_manager
        for request in output.scheduled_requests:
            if kv.enable_prefix_caching and not request.is_finished:
                start = request.num_computed_tokens
                end = start + output.num_scheduled_tokens[request.request_id]
                KVCacheManager._cache_blocks(kv, request, start // kv.block_size, end // kv.block_size)
        return super().update_from_output(output, sampled_token_ids)


class CacheLastToken(Scheduler):
    """a full block that ends with the last sampled token, which was never computed, is cached"""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        kv = self.kv_cache_manager
        for request in output.scheduled_requests:
            token_ids = sampled_token_ids.get(request.request_id, ())
            if token_ids and kv.enable_prefix_caching and not request.is_finished:
                num_tokens = request.num_tokens + 1
                table = kv._tables[request.request_id]
                if num_tokens % kv.block_size == 0 and len(table) * kv.block_size >= num_tokens:
                    probe = Request("probe", [*request.all_token_ids, *token_ids], request.sampling_params)
                    last = table[num_tokens // kv.block_size - 1]
                    if (
                        last.block_hash is None
                        and len(request.output_token_ids) + 1 == request.sampling_params.max_tokens
                    ):
                        kv.block_pool.cache_block(last, kv._block_hashes(probe)[-1])
        return super().update_from_output(output, sampled_token_ids)


class NoWatermark(Scheduler):
    """the watermark is ignored"""

    def _may_admit(self, *args: Any) -> bool:
        self.num_watermark_blocks = 0
        return super()._may_admit(*args)


class WatermarkAlways(Scheduler):
    """the watermark counts even when nothing runs"""

    def _may_admit(self, request: Request, num_tokens: int, computed_blocks: Sequence[KVCacheBlock]) -> bool:
        kv = self.kv_cache_manager
        needed = kv.num_blocks_needed(
            request, request.num_tokens if self.reserve_full_sequence else num_tokens, computed_blocks
        )
        return needed + self.num_watermark_blocks <= kv.num_free_blocks


class WatermarkOfUsable(Scheduler):
    """the watermark is a share of the usable blocks, rounded up, not of all blocks, rounded down"""

    def _may_admit(self, *args: Any) -> bool:
        share, kv = self.watermark_share, self.kv_cache_manager
        self.num_watermark_blocks = -int(-share * kv.num_usable_blocks // 1)
        return super()._may_admit(*args)

    def __init__(self, kv_cache_manager: KVCacheManager, *, watermark: float = 0.0, **options: Any) -> None:
        super().__init__(kv_cache_manager, watermark=watermark, **options)
        self.watermark_share = watermark


class NoReserve(Scheduler):
    """admission needs room for the first chunk only, not for the full sequence"""

    def _may_admit(self, *args: Any) -> bool:
        self.reserve_full_sequence = False
        return super()._may_admit(*args)


class AlwaysReserve(Scheduler):
    """admission needs room for the full sequence even when that is switched off"""

    def _may_admit(self, *args: Any) -> bool:
        self.reserve_full_sequence = True
        return super()._may_admit(*args)


class ThresholdAlone(Scheduler):
    """long_prefill_token_threshold holds for a lone request too"""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        return min(num_new_tokens, token_budget, self.long_prefill_token_threshold or num_new_tokens)


class NoThreshold(Scheduler):
    """long_prefill_token_threshold is ignored"""

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        return min(num_new_tokens, token_budget)


class VictimLast(Scheduler):
    """the victim is the last of running under the priority policy too"""

    def _pop_victim(self) -> Request:
        return self.running.pop()


class VictimTieLast(Scheduler):
    """of equally urgent requests the last one is the victim"""

    def _pop_victim(self) -> Request:
        if self.policy == "fcfs":
            return super()._pop_victim()
        victim = max(reversed(self.running), key=lambda request: (request.priority, request.arrival_time))
        self.running.remove(victim)
        return victim


class VictimOldest(Scheduler):
    """the victim is the first of running"""

    def _pop_victim(self) -> Request:
        return self.running.pop(0)


class IndexLoop(Scheduler):
    """(helper: the running loop by index, as vLLM has it; it breaks nothing)"""

    fixes_index = restores_budget = True
    breaks_after_own_preemption = False

    def _schedule_running(self, requests: Sequence[Request], output: SchedulerOutput, token_budget: int) -> int:
        i = 0
        while i < len(self.running):
            request = self.running[i]
            n = self._clamp_new_tokens(request.num_tokens - request.num_computed_tokens, token_budget)
            if n == 0:
                i += 1
                continue
            while self.kv_cache_manager.allocate_slots(request, n) is None:
                order = list(self.running)
                victim = self._pop_victim()
                self._preempt(victim)
                output.preempted_req_ids.append(victim.request_id)
                returned = output.drop(victim)
                token_budget += returned if self.restores_budget else 0
                i -= order.index(victim) < i and self.fixes_index
                if victim is request:
                    break
            else:
                output.add(request, n)
                token_budget -= n
                i += 1
                continue
            if self.breaks_after_own_preemption:
                break
        return token_budget


class NoIndexFix(IndexLoop):
    """after the preemption of one in front of it in running, the next request is skipped"""

    fixes_index = False


class NoBudgetRestore(IndexLoop):
    """a victim's tokens of this step do not go back to the budget"""

    restores_budget = False


class SelfPreemptBreak(IndexLoop):
    """a request that preempts itself ends the running loop under the priority policy too"""

    breaks_after_own_preemption = True


class PreemptToBack(Scheduler):
    """a preempted request goes to the back of the waiting queue"""

    def _enqueue(self, request: Request) -> None:
        if self.policy == "fcfs":
            self.waiting.append(request)
        else:
            super()._enqueue(request)


class PreemptToFront(Scheduler):
    """a preempted request goes to the front of the waiting queue under the priority policy too"""

    def _enqueue(self, request: Request) -> None:
        if request.status is RequestStatus.PREEMPTED:
            self.waiting.appendleft(request)
        else:
            super()._enqueue(request)


class PriorityByArrival(Scheduler):
    """the waiting queue is in order of arrival under the priority policy too"""

    def _enqueue(self, request: Request) -> None:
        super()._enqueue(request)
        if self.policy == "priority":
            self.waiting = deque(sorted(self.waiting, key=lambda r: (r.arrival_time, r.request_id)))


class AdmitAfterPreempt(Scheduler):
    """requests are admitted in a step that preempted, too"""

    def schedule(self) -> SchedulerOutput:
        output = SchedulerOutput()
        budget = self._schedule_running(list(self.running), output, self.max_num_batched_tokens)
        self._schedule_waiting(output, budget)
        return output


class WaitingFirst(Scheduler):
    """waiting requests take from the budget before running ones"""

    def schedule(self) -> SchedulerOutput:
        output, running = SchedulerOutput(), list(self.running)
        self._schedule_waiting(output, self.max_num_batched_tokens)
        admitted, self.running = self.running[len(running) :], running
        self._schedule_running(list(running), output, self.max_num_batched_tokens - output.total_num_scheduled_tokens)
        self.running += admitted
        return output


class ResumeFirst(Scheduler):
    """a resumed request goes to the front of running"""

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        resumed = request.status is RequestStatus.PREEMPTED
        super()._admit(request, num_computed_tokens)
        if resumed:
            self.running.insert(0, self.running.pop())


class SkipHead(Scheduler):
    """a head of the waiting queue that does not fit is passed over"""

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        passed: list[Request] = []
        while self.waiting:
            num_scheduled = len(output.scheduled_requests)
            super()._schedule_waiting(output, token_budget - output.total_num_scheduled_tokens)
            if len(output.scheduled_requests) == num_scheduled and not self.waiting:
                break
            if not self.waiting:
                break
            passed.append(self.waiting.popleft())
        self.waiting.extendleft(reversed(passed))


class ChunkAnyway(Scheduler):
    """prompts are chunked although chunked prefill is off"""

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        self.enable_chunked_prefill = True
        super()._schedule_waiting(output, token_budget)


class HitsCostBudget(Scheduler):
    """tokens that the prefix cache holds are charged to the budget"""

    def _admit(self, request: Request, num_computed_tokens: int) -> None:
        super()._admit(request, num_computed_tokens)
        self.charged += num_computed_tokens

    def _clamp_new_tokens(self, num_new_tokens: int, token_budget: int) -> int:
        return max(super()._clamp_new_tokens(num_new_tokens, token_budget - self.charged), 1)

    def schedule(self) -> SchedulerOutput:
        self.charged = 0
        return super().schedule()


class OneSeqMore(Scheduler):
    """max_num_seqs + 1 requests may run"""

    def __init__(self, kv_cache_manager: KVCacheManager, *, max_num_seqs: int, **options: Any) -> None:
        super().__init__(kv_cache_manager, max_num_seqs=max_num_seqs + 1, **options)


class ResumedLooksNew(Scheduler):
    """a preempted request keeps its counter of preemptions but looks new when it comes back, in statistics too"""

    def _preempt(self, request: Request) -> None:
        super()._preempt(request)
        request.status = RequestStatus.WAITING


class LengthBeforeStop(Scheduler):
    """an end-of-sequence token in the last allowed place is reported as "length\""""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        finished = super().update_from_output(output, sampled_token_ids)
        for request in finished:
            if len(request.output_token_ids) == request.sampling_params.max_tokens:
                request.status = RequestStatus.FINISHED_LENGTH
        return finished


HELPERS = (CachePublishesNothing, IndexLoop)


def mutants() -> Iterator[tuple[str, dict[str, type]]]:
    """Each broken rule with the classes that break it."""
    for cls in list(globals().values()):
        if not isinstance(cls, type) or cls.__module__ != __name__ or cls in HELPERS:
            continue
        text = str(cls.__doc__)
        if cls is CacheLate:
            yield text, {"scheduler_cls": cls, "kv_cache_manager_cls": CachePublishesNothing}
        elif issubclass(cls, Scheduler):
            yield text, {"scheduler_cls": cls}
        elif issubclass(cls, KVCacheManager):
            yield text, {"kv_cache_manager_cls": cls}
        elif issubclass(cls, BlockPool):
            yield text, {"kv_cache_manager_cls": _manager_with_pool(cls)}


def _manager_with_pool(pool_cls: type[BlockPool]) -> type[KVCacheManager]:
    class ManagerWithPool(KVCacheManager):
        def __init__(self, num_blocks: int, block_size: int, **options: Any) -> None:
            super().__init__(num_blocks, block_size, **options)
            self.block_pool = pool_cls(num_blocks)

    return ManagerWithPool


def main() -> int:
    """Run every trace against every mutant."""
    parser = argparse.ArgumentParser(description="Break one rule at a time; count the traces that notice.")
    parser.add_argument("--write", action="store_true", help="put the table into traces/README.md")
    args = parser.parse_args()
    start = time.monotonic()
    recorded = [trace for file in find_trace_files(ROOT / "traces" / "vllm-0.33.0") for trace in read_traces(file)]
    traces = [trace for trace in recorded if not trace.get("kv_violations")]
    assert not any(replay(trace, scheduler_cls=IndexLoop) for trace in traces), "IndexLoop is to break nothing"
    lines, unguarded = [], 0
    for text, classes in mutants():
        num_noticed = sum(replay(trace, **classes) is not None for trace in traces)
        unguarded += num_noticed < AT_LEAST
        lines.append((num_noticed, f"| {text} | {num_noticed} |"))
        print(lines[-1][1] + (" too few" if num_noticed < AT_LEAST else ""), flush=True)
    rows = "\n".join(line for _, line in sorted(lines, reverse=True))
    table = f"| rule broken | traces of {len(traces)} that notice |\n|---|---:|\n{rows}\n"
    if args.write:
        write_section(ROOT / "traces" / "README.md", "power", table)
    print(f"{len(lines)} rules, {unguarded} of them noticed by fewer than {AT_LEAST}; {time.monotonic() - start:.0f} s")
    return int(unguarded > 0)


if __name__ == "__main__":
    sys.exit(main())
