"""The counters at the end of every step in three lists, which only grow; a binary search finds the window in them."""

from bisect import bisect_left

from mini_vllm.kv_cache import PrefixCacheStats
from mini_vllm.observe.stats import SchedulerStats
from mini_vllm.observe.stats import StatsRecorder as ReferenceStatsRecorder
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.step import KVPlan


class StatsRecorder(ReferenceStatsRecorder):
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.queries = [self._both("queries")]
        self.hits = [self._both("hits")]

    def _both(self, name):
        return getattr(self.scheduler.prefix_cache_stats, name) + getattr(
            self.scheduler.preempted_prefix_cache_stats, name
        )

    def record(self, output: SchedulerOutput, plan: KVPlan) -> SchedulerStats:
        kv = self.scheduler.kv_cache_manager
        self.queries.append(self._both("queries"))
        self.hits.append(self._both("hits"))
        return SchedulerStats(
            num_running_reqs=len(self.scheduler.running),
            num_waiting_reqs=len(self.scheduler.waiting),
            num_scheduled_reqs=len(output.num_scheduled_tokens.keys()),
            num_scheduled_tokens=sum(output.num_scheduled_tokens.values()),
            kv_cache_usage=(kv.num_usable_blocks - kv.num_free_blocks) / kv.num_usable_blocks,
            prefix_cache_queries=self.queries[-1] - self.queries[-2],
            prefix_cache_hits=self.hits[-1] - self.hits[-2],
            num_preempted_reqs=len(output.preempted_req_ids),
            num_swapped_out_blocks=len(plan.swap_out),
            num_swapped_in_blocks=len(plan.swap_in),
            num_copied_blocks=len(plan.copy),
        )


class CachingMetrics:
    def __init__(self, stats: PrefixCacheStats, max_recent_requests: int = 1000) -> None:
        self.stats, self.most = stats, max_recent_requests
        self.requests, self.queries, self.hits = [stats.requests], [stats.queries], [stats.hits]

    def observe(self) -> None:
        if self.stats.requests > self.requests[-1]:
            self.requests.append(self.stats.requests)
            self.queries.append(self.stats.queries)
            self.hits.append(self.stats.hits)

    @property
    def hit_rate(self) -> float:
        if len(self.requests) == 1:
            return 0
        start = min(bisect_left(self.requests, self.requests[-1] - self.most), len(self.requests) - 2)
        queries = self.queries[-1] - self.queries[start]
        return (self.hits[-1] - self.hits[start]) / queries if queries else 0
