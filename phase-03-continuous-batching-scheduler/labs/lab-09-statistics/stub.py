"""Lab 03.9: Statistics: a step in figures (30 minutes). What must hold is in contract.md."""

from collections import deque

from labkit import todo
from mini_vllm.kv_cache import PrefixCacheStats
from mini_vllm.observe.stats import SchedulerStats, StatsRecorder as ReferenceStatsRecorder
from mini_vllm.scheduler import SchedulerInterface, SchedulerOutput
from mini_vllm.step import KVPlan


class StatsRecorder(ReferenceStatsRecorder):
    """What is not defined here is the reference's."""

    def __init__(self, scheduler: SchedulerInterface) -> None:
        todo("03.9")

    def record(self, output: SchedulerOutput, plan: KVPlan) -> SchedulerStats:
        """The figures of the step that schedule() has just decided.

        Call it once a step, in O(batch size).

        plan: the copies that the KV cache manager asks of the step.
        """
        todo("03.9")


class CachingMetrics:
    """The hit rate of the prefix cache over the most recent requests: what it does now, not since
    the beginning.

    stats: counters that only grow, such as Scheduler.prefix_cache_stats; what they hold already is
    left out. The window is the most recent steps that looked anything up, as many as have together
    at most max_recent_requests requests; the last of them is in it however large it is. Source:
    CachingMetrics in vllm/v1/metrics/stats.py.
    """

    def __init__(self, stats: PrefixCacheStats, max_recent_requests: int = 1000) -> None:
        todo("03.9")

    def observe(self) -> None:
        """Take in what was counted since the last call. Call it once a step, in O(1) on average."""
        todo("03.9")

    @property
    def hit_rate(self) -> float:
        """The share of the tokens looked up in the window that was found, in [0, 1]; 0 while
        nothing was looked up.
        """
        todo("03.9")
