"""Two generators that never end: each goes round once a step, and what it remembers are its local variables."""

from mini_vllm.kv_cache import PrefixCacheStats
from mini_vllm.observe.stats import SchedulerStats
from mini_vllm.observe.stats import StatsRecorder as ReferenceStatsRecorder
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.step import KVPlan


def recording(scheduler):
    counters = (scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats)
    queries, hits = sum(each.queries for each in counters), sum(each.hits for each in counters)
    output, plan = yield None
    while True:
        all_queries, all_hits = sum(each.queries for each in counters), sum(each.hits for each in counters)
        figures = {
            "num_running_reqs": len(scheduler.running),
            "num_waiting_reqs": len(scheduler.waiting),
            "num_scheduled_reqs": len(output.num_scheduled_tokens),
            "num_scheduled_tokens": output.total_num_scheduled_tokens,
            "kv_cache_usage": scheduler.kv_cache_manager.usage,
            "prefix_cache_queries": all_queries - queries,
            "prefix_cache_hits": all_hits - hits,
            "num_preempted_reqs": len(output.preempted_req_ids),
        }
        for name in ("swapped_out", "swapped_in", "copied"):
            field = {"copied": "copy"}.get(name, name.replace("swapped", "swap"))
            figures[f"num_{name}_blocks"] = len(getattr(plan, field))
        queries, hits = all_queries, all_hits
        output, plan = yield SchedulerStats(**figures)


def window(stats, most):
    """Yields the rate; goes on for every step."""
    seen = (stats.requests, stats.queries, stats.hits)
    steps, rate = [], 0.0
    while True:
        yield rate
        now = (stats.requests, stats.queries, stats.hits)
        if now[0] > seen[0]:
            steps.append([new - old for new, old in zip(now, seen, strict=True)])
        seen = now
        kept = sum(requests for requests, _, _ in steps)
        while kept > most and steps[1:]:
            kept -= steps.pop(0)[0]
        if steps:
            _, queries, hits = (sum(counts) for counts in zip(*steps, strict=True))
            rate = hits / max(queries, 1)


class StatsRecorder(ReferenceStatsRecorder):
    def __init__(self, scheduler: Scheduler) -> None:
        self._recording = recording(scheduler)
        next(self._recording)

    def record(self, output: SchedulerOutput, plan: KVPlan) -> SchedulerStats:
        return self._recording.send((output, plan))


class CachingMetrics:
    def __init__(self, stats: PrefixCacheStats, max_recent_requests: int = 1000) -> None:
        self._window = window(stats, max_recent_requests)
        self._rate = next(self._window)

    def observe(self) -> None:
        self._rate = next(self._window)

    @property
    def hit_rate(self) -> float:
        return self._rate
