"""As vLLM keeps it: an entry for each step in the window, and three sums beside them that old entries leave again."""

from collections import deque

from mini_vllm.kv_cache import PrefixCacheStats
from mini_vllm.observe.stats import SchedulerStats
from mini_vllm.observe.stats import StatsRecorder as ReferenceStatsRecorder
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.step import KVPlan


def reading(*counters):
    return tuple(
        sum(column) for column in zip(*((each.requests, each.queries, each.hits) for each in counters), strict=True)
    )


class StatsRecorder(ReferenceStatsRecorder):
    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.counters = (scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats)
        self.last = reading(*self.counters)

    def record(self, output: SchedulerOutput, plan: KVPlan) -> SchedulerStats:
        last, self.last = self.last, reading(*self.counters)
        _, queries, hits = (now - before for now, before in zip(self.last, last, strict=True))
        lists = (
            self.scheduler.running,
            self.scheduler.waiting,
            output.scheduled_requests or output.num_scheduled_tokens,
        )
        copies = (plan.swap_out, plan.swap_in, plan.copy)
        return SchedulerStats(
            *map(len, lists),
            sum(output.num_scheduled_tokens.values()),
            self.scheduler.kv_cache_manager.usage,
            queries,
            hits,
            len(output.preempted_req_ids),
            *map(len, copies),
        )


class CachingMetrics:
    def __init__(self, stats: PrefixCacheStats, max_recent_requests: int = 1000) -> None:
        self.stats = stats
        self.last = reading(stats)
        self.most = max_recent_requests
        self.steps = deque()
        self.requests = self.queries = self.hits = 0

    def observe(self) -> None:
        last, self.last = self.last, reading(self.stats)
        requests, queries, hits = (now - before for now, before in zip(self.last, last, strict=True))
        if requests == 0:
            return
        self.steps.append((requests, queries, hits))
        self._move(1, requests, queries, hits)
        while len(self.steps) > 1 and self.requests > self.most:
            self._move(-1, *self.steps.popleft())

    def _move(self, sign, requests, queries, hits):
        self.requests += sign * requests
        self.queries += sign * queries
        self.hits += sign * hits

    @property
    def hit_rate(self) -> float:
        return self.hits / self.queries if self.queries else 0.0
