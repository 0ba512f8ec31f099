"""The oldest reading that may count is found when the rate is read; observe() only notes where the meter stands."""

from itertools import pairwise

from mini_vllm.kv_cache import PrefixCacheStats
from mini_vllm.observe.stats import SchedulerStats
from mini_vllm.observe.stats import StatsRecorder as ReferenceStatsRecorder
from mini_vllm.scheduler import SchedulerInterface, SchedulerOutput
from mini_vllm.step import KVPlan


class StatsRecorder(ReferenceStatsRecorder):
    def __init__(self, scheduler: SchedulerInterface) -> None:
        meters = (scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats)
        read = lambda: complex(sum(m.queries for m in meters), sum(m.hits for m in meters))  # noqa: E731
        self.scheduler, self.read, self.at = scheduler, read, read()

    def record(self, output: SchedulerOutput, plan: KVPlan) -> SchedulerStats:
        at = self.read()
        grown, self.at = at - self.at, at
        numbers = {"prefix_cache_queries": int(grown.real), "prefix_cache_hits": int(grown.imag)}
        for name, things in (
            ("running_reqs", self.scheduler.running),
            ("waiting_reqs", self.scheduler.waiting),
            ("scheduled_reqs", output.num_scheduled_tokens),
            ("preempted_reqs", output.preempted_req_ids),
            ("swapped_out_blocks", plan.swap_out),
            ("swapped_in_blocks", plan.swap_in),
            ("copied_blocks", plan.copy),
        ):
            numbers[f"num_{name}"] = len(things)
        usage = self.scheduler.kv_cache_manager.usage
        return SchedulerStats(num_scheduled_tokens=output.total_num_scheduled_tokens, kv_cache_usage=usage, **numbers)


class CachingMetrics:
    def __init__(self, stats: PrefixCacheStats, max_recent_requests: int = 1000) -> None:
        self.stats, self.max_recent_requests = stats, max_recent_requests
        self.marks: list[tuple[int, int, int]] = []
        self.observe()

    def observe(self) -> None:
        mark = (self.stats.requests, self.stats.queries, self.stats.hits)
        if not self.marks or mark[0] > self.marks[-1][0]:
            self.marks.append(mark)

    @property
    def hit_rate(self) -> float:
        last, queries, hits = self.marks[-1], 0, 0
        for older, newer in reversed(list(pairwise(self.marks))):
            if newer is not last and last[0] - older[0] > self.max_recent_requests:
                break
            queries += newer[1] - older[1]
            hits += newer[2] - older[2]
        return hits / queries if queries else 0.0
