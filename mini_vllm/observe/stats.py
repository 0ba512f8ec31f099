"""What one step did, in figures: the numbers that a metrics page, a benchmark and a simulator read.

Source: SchedulerStats in vllm/v1/metrics/stats.py, which Scheduler.make_stats fills once a step.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from mini_vllm.kv_cache import PrefixCacheStats
from mini_vllm.observe.listener import StepListener
from mini_vllm.scheduler import SchedulerInterface, SchedulerOutput
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import KVPlan


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """One step, as it stands after schedule().

    Counts of requests, tokens and blocks; kv_cache_usage is in [0, 1].
    """

    num_running_reqs: int
    num_waiting_reqs: int  # preempted ones included
    num_scheduled_reqs: int  # the batch size
    num_scheduled_tokens: int
    kv_cache_usage: float  # the share of the usable blocks that is held
    # tokens looked up by the admissions of this step, re-admissions included
    prefix_cache_queries: int
    prefix_cache_hits: int  # tokens found
    num_preempted_reqs: int
    num_swapped_out_blocks: int
    num_swapped_in_blocks: int
    num_copied_blocks: int


class StatsRecorder:
    """Makes the SchedulerStats of one scheduler: the prefix cache counts since the beginning, a
    step wants the rest.
    """

    def __init__(self, scheduler: SchedulerInterface) -> None:
        self.scheduler = scheduler
        self._queries, self._hits = self._prefix_cache_totals()

    def record(self, output: SchedulerOutput, plan: KVPlan) -> SchedulerStats:
        """The figures of the step that schedule() has just decided.

        Call it once a step, in O(batch size).

        plan: the copies that the KV cache manager asks of the step.
        """
        scheduler = self.scheduler
        queries, hits = self._prefix_cache_totals()
        stats = SchedulerStats(
            num_running_reqs=len(scheduler.running),
            num_waiting_reqs=len(scheduler.waiting),
            num_scheduled_reqs=len(output.num_scheduled_tokens),
            num_scheduled_tokens=output.total_num_scheduled_tokens,
            kv_cache_usage=scheduler.kv_cache_manager.usage,
            prefix_cache_queries=queries - self._queries,
            prefix_cache_hits=hits - self._hits,
            num_preempted_reqs=len(output.preempted_req_ids),
            num_swapped_out_blocks=len(plan.swap_out),
            num_swapped_in_blocks=len(plan.swap_in),
            num_copied_blocks=len(plan.copy),
        )
        self._queries, self._hits = queries, hits
        return stats

    def _prefix_cache_totals(self) -> tuple[int, int]:
        first = self.scheduler.prefix_cache_stats
        again = self.scheduler.preempted_prefix_cache_stats
        return first.queries + again.queries, first.hits + again.hits


class StatsListener(StepListener):
    """Keeps the SchedulerStats of the step of an engine that ended last; None before the first."""

    def __init__(self, scheduler: SchedulerInterface) -> None:
        self.last: SchedulerStats | None = None
        self._recorder = StatsRecorder(scheduler)

    def after_schedule(self, step: Step) -> None:
        step.notes[self] = self._recorder.record(step.output, step.plan)

    def after_update(self, step: Step, *args: Any, **kwargs: Any) -> None:
        self.last = step.notes.get(self)


class CachingMetrics:
    """The hit rate of the prefix cache over the most recent requests: what it does now, not since
    the beginning.

    stats: counters that only grow, such as Scheduler.prefix_cache_stats; what they hold already is
    left out. The window is the most recent steps that looked anything up, as many as have together
    at most max_recent_requests requests; the last of them is in it however large it is. Source:
    CachingMetrics in vllm/v1/metrics/stats.py.
    """

    def __init__(self, stats: PrefixCacheStats, max_recent_requests: int = 1000) -> None:
        self.stats = stats
        self.max_recent_requests = max_recent_requests
        # (requests, queries, hits) at the edges of the steps in the window: a window is the
        # difference of two edges
        self._edges = deque([(stats.requests, stats.queries, stats.hits)])

    def observe(self) -> None:
        """Take in what was counted since the last call. Call it once a step, in O(1) on average."""
        stats, edges = self.stats, self._edges
        if stats.requests == edges[-1][0]:
            return
        edges.append((stats.requests, stats.queries, stats.hits))
        while len(edges) > 2 and stats.requests - edges[0][0] > self.max_recent_requests:
            edges.popleft()

    @property
    def hit_rate(self) -> float:
        """The share of the tokens looked up in the window that was found, in [0, 1]; 0 while
        nothing was looked up.
        """
        (_, queries, hits), (_, all_queries, all_hits) = self._edges[0], self._edges[-1]
        return (all_hits - hits) / (all_queries - queries) if all_queries > queries else 0.0


def summarise_steps(steps: Sequence[SchedulerStats]) -> dict[str, float]:
    """What the scheduler did in all steps of a run, of which there is at least one."""
    return {
        "steps": len(steps),
        "mean_batch_size": fmean(step.num_scheduled_reqs for step in steps),
        "mean_scheduled_tokens": fmean(step.num_scheduled_tokens for step in steps),
        "preemptions": sum(step.num_preempted_reqs for step in steps),
        "swapped_blocks": sum(
            step.num_swapped_out_blocks + step.num_swapped_in_blocks for step in steps
        ),
        "prefix_hit_tokens": sum(step.prefix_cache_hits for step in steps),
        "peak_waiting": max(step.num_waiting_reqs for step in steps),
        "peak_kv_cache_usage": max(step.kv_cache_usage for step in steps),
    }
