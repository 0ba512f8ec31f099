"""Copies of the counter objects, the whole history in a list, and a rate that observe() works out backwards."""

from copy import copy

from mini_vllm.kv_cache import PrefixCacheStats
from mini_vllm.observe.stats import SchedulerStats
from mini_vllm.observe.stats import StatsRecorder as ReferenceStatsRecorder
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.step import KVPlan


class StatsRecorder(ReferenceStatsRecorder):
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.first = copy(scheduler.prefix_cache_stats)
        self.again = copy(scheduler.preempted_prefix_cache_stats)

    def record(self, output: SchedulerOutput, plan: KVPlan) -> SchedulerStats:
        scheduler = self.scheduler
        kv = scheduler.kv_cache_manager
        first, again = scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats
        held = {block for request in scheduler.running for block in kv.get_block_ids(request.request_id)}
        figures = SchedulerStats(
            num_running_reqs=sum(1 for _ in scheduler.running),
            num_waiting_reqs=sum(1 for _ in scheduler.waiting),
            num_scheduled_reqs=sum(1 for _ in output.num_scheduled_tokens),
            num_scheduled_tokens=sum(output.num_scheduled_tokens.values()),
            kv_cache_usage=len(held) / kv.num_usable_blocks,
            prefix_cache_queries=(first.queries - self.first.queries) + (again.queries - self.again.queries),
            prefix_cache_hits=(first.hits - self.first.hits) + (again.hits - self.again.hits),
            num_preempted_reqs=sum(1 for _ in output.preempted_req_ids),
            num_swapped_out_blocks=sum(1 for _ in plan.swap_out),
            num_swapped_in_blocks=sum(1 for _ in plan.swap_in),
            num_copied_blocks=sum(1 for _ in plan.copy),
        )
        self.first, self.again = copy(first), copy(again)
        return figures


class CachingMetrics:
    hit_rate = 0

    def __init__(self, stats: PrefixCacheStats, max_recent_requests: int = 1000) -> None:
        self._stats, self._most = stats, max_recent_requests
        self._readings = [copy(stats)]

    def observe(self) -> None:
        self._readings.append(copy(self._stats))
        end, start = self._readings[-1], None
        for reading in reversed(self._readings):
            if reading.requests == end.requests:
                continue
            if start is not None and end.requests - reading.requests > self._most:
                break
            if start is None or reading.requests < start.requests:
                start = reading
            if end.requests - reading.requests > self._most:
                break
        if start is None:
            return
        queries = end.queries - start.queries
        self.hit_rate = (end.hits - start.hits) / queries if queries else 0
