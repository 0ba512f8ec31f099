# === a_window_by_subtraction
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


# === as_vllm
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


# === copies_and_history
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


# === generators
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


# === meters_of_its_own
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


# === search_in_sums
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
