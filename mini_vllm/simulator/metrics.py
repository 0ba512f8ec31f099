"""What a simulated run is judged by. Memory does not grow with the trace.

TTFT, ITL, TPOT and E2E (there: E2EL) are those of load/metrics.py; here a request is due when it
arrives.

There are two definitions of a good request. Both want a TTFT within its limit.

by gaps   at least 99 of 100 gaps are within the limit of ITL (of fewer than 100 gaps: all). A
          reader who waits for one word notices. It hides how long the slowest gap is.
by TPOT   the mean of the gaps, TPOT, is within the same limit; a request of one token has no gap to
          be late. It hides every pause that the other gaps make up for.

goodput   good requests a second, of the whole run

Sources: goodput by TPOT as in DistServe (Zhong et al., OSDI 2024) and in `vllm bench serve
--goodput ttft:... tpot:...`; by gaps with a limit on their tail, as in Sarathi-Serve (Agrawal et
al., OSDI 2024).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from heapq import heapreplace
from typing import Any

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.metrics import keeps, time_per_output_token
from mini_vllm.simulator.sim_request import SimRequest

PERCENTILES = (50, 90, 99)
MAX_SECONDS = 1e9  # of a limit


class QuantileSketch:
    """Counts values in buckets that grow by a constant factor, so that any quantile is within
    RELATIVE_ERROR.

    Source: DDSketch (Masson et al., VLDB 2019). Values up to 1e-9 (a nanosecond) count as 0.
    """

    RELATIVE_ERROR = 0.005

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.max = 0.0
        self._gamma = (1 + self.RELATIVE_ERROR) / (1 - self.RELATIVE_ERROR)
        self._per_log = 1 / math.log(self._gamma)
        self.buckets: dict[float, int] = {}  # how many values each has, by its index

    def add(self, value: float, times: int = 1) -> None:
        index = math.ceil(math.log(value) * self._per_log) if value > 1e-9 else -math.inf
        self.buckets[index] = self.buckets.get(index, 0) + times
        self.count += times
        self.total += value * times
        self.max = max(self.max, value)

    def quantile(self, q: float) -> float:
        """The value of nearest rank, q in (0, 1]; nan of nothing."""
        rank = math.ceil(q * self.count)
        for index in sorted(self.buckets):
            rank -= self.buckets[index]
            if rank <= 0:
                return float(2 * self._gamma**index / (self._gamma + 1))
        return math.nan

    def summary(self) -> dict[str, float | None]:
        """Mean and percentiles; None of nothing, which JSON knows."""
        figures = {"mean": self.total / max(self.count, 1)} | {
            f"p{q}": self.quantile(q / 100) for q in PERCENTILES
        }
        return {name: value if self.count else None for name, value in figures.items()}


@dataclass(frozen=True, slots=True)
class SLO:
    """The limits of a good request, in seconds."""

    ttft: float = 2.0
    itl: float = 0.1

    def __post_init__(self) -> None:
        if not (0 < self.ttft <= MAX_SECONDS and 0 < self.itl <= MAX_SECONDS):
            raise InvalidParameterError(
                f"the limits of the SLO must be above 0 and at most {MAX_SECONDS:g} s, got "
                f"{self.ttft} and {self.itl}"
            )


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """How a replica stands at the end of a step."""

    time: float
    num_running: int
    num_waiting: int
    kv_cache_usage: float


class Timeline:
    """Every n-th step; when there are MAX_POINTS of them, n doubles and every second one goes."""

    MAX_POINTS = 2000

    def __init__(self) -> None:
        self.points: list[TimelinePoint] = []
        self._stride = 1
        self._steps = 0

    def add(self, point: TimelinePoint) -> None:
        if self._steps % self._stride == 0:
            self.points.append(point)
            if len(self.points) == self.MAX_POINTS:
                del self.points[1::2]
                self._stride *= 2
        self._steps += 1


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that has ended, times in seconds. tail_itl: 99 of 100 of its gaps are at most as
    long.
    """

    index: int
    arrival_time: float
    input_length: int
    output_length: int
    ttft: float
    tpot: float | None
    tail_itl: float | None
    e2e: float
    num_cached_tokens: int
    num_preemptions: int

    def is_good(self, slo: SLO) -> tuple[bool, bool]:
        """Whether it keeps both limits, by gaps and by TPOT."""
        in_time = {"ttft": slo.ttft}
        return keeps(self, {**in_time, "tail_itl": slo.itl}), keeps(
            self, {**in_time, "tpot": slo.itl}
        )


class Metrics:
    """Told of every step of every replica; report() sums up. on_finished: told of every request
    that has ended.
    """

    def __init__(
        self, slo: SLO, on_finished: Callable[[RequestRecord], object] | None = None
    ) -> None:
        self.slo = slo
        self.on_finished = on_finished
        self.ttft, self.itl, self.tpot, self.e2e = (QuantileSketch() for _ in range(4))
        self.timeline = Timeline()  # of the first replica
        self.num_refused = self.num_finished = self.num_good = self.num_good_by_tpot = 0
        self.num_steps = self.num_scheduled_tokens = self.num_preemptions = (
            self.num_copied_blocks
        ) = 0
        self.num_accepted_tokens = 0  # drafts that were right: tokens that came along with another
        self.busy = self.used = self.peak = self.end = 0.0

    def add_step(
        self, seconds: float, usage: float, work: tuple[int, ...], num_preemptions: int
    ) -> None:
        self.num_steps += 1
        self.num_scheduled_tokens += work[2]
        self.num_copied_blocks += work[5]
        self.num_preemptions += num_preemptions
        self.busy += seconds
        self.used += seconds * usage
        self.peak = max(self.peak, usage)

    def add_tokens(self, requests: Iterable[SimRequest], before: float, now: float) -> None:
        """Each of the requests got tokens now; most of them got their last ones at `before`, and
        are counted as one.
        """
        num_regular = 0
        for request in requests:
            last = request.last_token_time
            request.last_token_time = now
            if last is None:
                request.first_token_time = now
                self.ttft.add(now - request.arrival_time)
                continue
            if last == before:
                num_regular += 1
            else:
                self.itl.add(now - last)
            if now - last > request.longest_gaps[0]:
                heapreplace(request.longest_gaps, now - last)
        if num_regular:
            self.itl.add(now - before, num_regular)

    def add_finished(self, request: SimRequest, now: float) -> None:
        num_gaps = len(request.output_token_ids) - 1
        record = RequestRecord(
            int(request.request_id),
            request.arrival_time,
            request.num_prompt_tokens,
            num_gaps + 1,
            request.first_token_time - request.arrival_time,
            time_per_output_token(request.first_token_time, now, num_gaps + 1),
            request.longest_gaps[0] if num_gaps else None,
            now - request.arrival_time,
            request.num_cached_tokens,
            request.num_preemptions,
        )
        self.num_finished += 1
        self.end = max(self.end, now)
        self.e2e.add(record.e2e)
        if record.tpot is not None:
            self.tpot.add(record.tpot)
        by_gaps, by_tpot = record.is_good(self.slo)
        self.num_good += by_gaps
        self.num_good_by_tpot += by_tpot
        if self.on_finished is not None:
            self.on_finished(record)

    def report(self, prefix_queries: int, prefix_hits: int) -> dict[str, Any]:
        """Everything in seconds, tokens, blocks and shares; latencies as {"mean", "p50", "p90",
        "p99"}.
        """
        end = self.end or math.inf
        num_all = max(self.num_finished + self.num_refused, 1)
        num_output_tokens = self.ttft.count + self.itl.count + self.num_accepted_tokens
        return {
            "requests": self.num_finished,
            "refused": self.num_refused,
            "makespan": self.end,
            "requests_per_s": self.num_finished / end,
            "output_tokens": num_output_tokens,
            "output_tokens_per_s": num_output_tokens / end,
            "slo": asdict(self.slo),
            "goodput": self.num_good / end,
            "good_share": self.num_good / num_all,
            "goodput_by_tpot": self.num_good_by_tpot / end,
            "good_share_by_tpot": self.num_good_by_tpot / num_all,
            "ttft": self.ttft.summary(),
            "itl": self.itl.summary(),
            "tpot": self.tpot.summary(),
            "e2e": self.e2e.summary(),
            "max_itl": self.itl.max,
            "preemptions": self.num_preemptions,
            "copied_blocks": self.num_copied_blocks,
            "prefix_queries": prefix_queries,
            "prefix_hits": prefix_hits,
            "prefix_hit_rate": prefix_hits / prefix_queries if prefix_queries else 0.0,
            "steps": self.num_steps,
            "scheduled_tokens": self.num_scheduled_tokens,
            "kv_cache_usage": {
                "mean": self.used / self.busy if self.busy else 0.0,
                "peak": self.peak,
            },
        }
