"""A meter that can be subtracted: each object keeps one for every counter that it reads, and asks it for the growth."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

from mini_vllm.kv_cache import PrefixCacheStats
from mini_vllm.observe.stats import SchedulerStats
from mini_vllm.observe.stats import StatsRecorder as ReferenceStatsRecorder
from mini_vllm.scheduler import SchedulerInterface, SchedulerOutput
from mini_vllm.step import KVPlan


class Meter:
    """What a counter has grown by since it was last asked."""

    def __init__(self, counter: PrefixCacheStats) -> None:
        self.counter = counter
        self.grown()

    def grown(self) -> dict[str, int]:
        before = vars(self).get("reading", {})
        self.reading = {each.name: getattr(self.counter, each.name) for each in fields(self.counter)}
        return {name: value - before.get(name, 0) for name, value in self.reading.items()}


@dataclass
class Bucket:
    """The lookups of one step, and the steps before it that are still in the window."""

    grown: dict[str, int]
    older: "Bucket | None"

    def __iter__(self) -> Iterator["Bucket"]:
        bucket: Bucket | None = self
        while bucket:
            yield bucket
            bucket = bucket.older

    def sum(self, name: str) -> int:
        return sum(bucket.grown[name] for bucket in self)

    def keep(self, most: int) -> None:
        """Cut off the steps that do not fit beside those before them."""
        for bucket in self:
            most -= bucket.grown["requests"]
            if bucket.older and bucket.older.grown["requests"] > most:
                bucket.older = None


class StatsRecorder(ReferenceStatsRecorder):
    def __init__(self, scheduler: SchedulerInterface) -> None:
        self.scheduler = scheduler
        self.meters = [Meter(scheduler.prefix_cache_stats), Meter(scheduler.preempted_prefix_cache_stats)]

    def record(self, output: SchedulerOutput, plan: KVPlan) -> SchedulerStats:
        grown = [meter.grown() for meter in self.meters]
        kv = self.scheduler.kv_cache_manager
        return SchedulerStats(
            len(self.scheduler.running),
            len(self.scheduler.waiting),
            len(output.num_scheduled_tokens),
            sum(output.num_scheduled_tokens[name] for name in output.num_scheduled_tokens),
            (kv.num_usable_blocks - kv.num_free_blocks) / kv.num_usable_blocks,
            sum(each["queries"] for each in grown),
            sum(each["hits"] for each in grown),
            len(output.preempted_req_ids),
            *(len(pairs) for pairs in (plan.swap_out, plan.swap_in, plan.copy)),
        )


class CachingMetrics:
    def __init__(self, stats: PrefixCacheStats, max_recent_requests: int = 1000) -> None:
        self.meter, self.most = Meter(stats), max_recent_requests
        self.newest: Bucket | None = None

    def observe(self) -> None:
        grown = self.meter.grown()
        if grown["requests"]:
            self.newest = Bucket(grown, self.newest)
            self.newest.keep(self.most)

    @property
    def hit_rate(self) -> float:
        queries = self.newest.sum("queries") if self.newest else 0
        return self.newest.sum("hits") / queries if queries else 0
