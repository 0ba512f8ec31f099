"""The figures of a load that goes on without end, with what they leave uncertain; or that there are none.

A run begins with an empty engine and ends in a drain, when no more requests arrive. Neither is what a server does all
day, and in a short run they are all there is. So a run is cut into NUM_BATCHES stretches of equal time, from the first
arrival to the last. The first WARM_UP of them are left out, and so is the drain. A figure is that of all other
stretches together, over all runs.

A mean, a median or a share has a confidence interval (Student's t, 95 %). Each stretch gives a value of its own, and
the interval comes from how far these lie from the figure. Neighbouring stretches resemble each other when a queue comes
and goes slowly. Then they are joined in pairs until they do not. The error of QuantileSketch comes on top. The interval
of a median held the long run in 18 to 20 of 20 trials with V1 at 8 and at 16 requests a second (test_steady_state.py).
Near the capacity that of a mean holds it less often, as a mean has a part of the tail in it.

A tail (p90 or p99) has no interval. A long queue is rare, and it holds most of the slowest requests of its run. So the
spread of the stretches says too little about the tail of the long run. Such an interval of three runs of 5,000 requests
held the TTFT p99 in 34 of 60 trials with the queue of test_steady_state.py, and in 7 of 20 trials with V1 near its
capacity. Ten times as many runs would help, and cost ten times as much. So a tail has the lowest and the highest value
of a run instead (Spread). If all three runs of one load lie below all three of another, chance alone does that once in
20 times.

A system that gets more than it can do has no steady state: its queue grows as long as one looks, and its latencies
with it. So the unfinished requests at the end of every stretch are counted. The growth is how many more they are in the
last third of the stretches than in the first third, as a share of the requests that arrive from the middle of the one
to the middle of the other. Above MOST_GROWTH the system is over its capacity. Means of thirds, and not two moments, are
compared, because recorded arrivals come in bursts.

Source: batch means, Law, Simulation Modeling and Analysis, chapter 9; their distance from the figure of all of them
(sectioning), Asmussen and Glynn, Stochastic Simulation, section III.5; runs that do not overlap, the exact rank-sum
test of Wilcoxon, Individual Comparisons by Ranking Methods, 1945.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import NormalDist, fmean
from typing import Any, NamedTuple

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.workload import Lengths, TraceRequest, synthetic
from mini_vllm.simulator.fleet import simulate
from mini_vllm.simulator.metrics import SLO, Metrics, QuantileSketch, RequestRecord
from mini_vllm.simulator.sim_request import SimRequest
from mini_vllm.simulator.step_time import StepTimeModel

NUM_BATCHES, WARM_UP = 20, 5
MOST_CORRELATION = 0.2  # of neighbouring stretches; above it they are joined
LEAST_BATCHES = 5  # of one run, when they are joined
MOST_GROWTH = 0.02  # of the arrivals
LATENCIES = ("ttft", "itl", "tpot", "e2e")
TAILS = ("p90", "p99")

Figures = dict[str, float | None]


class Interval(NamedTuple):
    """A figure: it lies within mean - half_width and mean + half_width, with a confidence of 95 %."""

    mean: float
    half_width: float

    def is_below(self, other: "Interval") -> bool:
        """Whether it is less for certain: the intervals do not overlap."""
        return self.mean + self.half_width < other.mean - other.half_width

    def __str__(self) -> str:
        return f"{self.mean:.3g} ± {self.half_width:.2g}"


class Spread(NamedTuple):
    """A tail: the figure of all runs together, and the lowest and the highest of one run. It states no confidence."""

    mean: float
    low: float
    high: float

    def is_below(self, other: "Spread") -> bool:
        """Whether it is less in each run than in any run of the other one."""
        return self.high < other.low

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True, slots=True)
class SteadyState:
    """figures: "ttft mean", "ttft p50" and the like in seconds, "goodput" a second, "good_share", "goodput_by_tpot"."""

    figures: Mapping[str, Interval]
    tails: Mapping[str, Spread]  # "ttft p99" and the like
    growth: Interval
    reports: Sequence[Mapping[str, Any]]  # of the whole runs, see Metrics.report
    num_requests: int  # of each run, at least
    finished: Sequence[Sequence[Sequence[RequestRecord]]] = ()  # of each run, by stretch

    @property
    def is_over_capacity(self) -> bool:
        return self.growth.mean > MOST_GROWTH

    def good_shares(self, slo: SLO) -> tuple[Interval, Interval]:
        """good_share and good_share_by_tpot at other limits. No scheduler knows them, so nothing is simulated again."""
        goods = [[[record.is_good(slo) for record in each] for each in run if each] for run in self.finished]
        by_gaps, by_tpot = (
            interval_of(
                [[fmean(good[kind] for good in each) for each in run] for run in goods],
                fmean(good[kind] for run in goods for each in run for good in each),
            )
            for kind in (0, 1)
        )
        return by_gaps, by_tpot


class Stretches(Metrics):
    """Metrics of each stretch of a run: what happens at `now` belongs to the one that it falls into."""

    def __init__(self, slo: SLO, seconds: float) -> None:
        super().__init__(slo)
        self.seconds = seconds  # of one
        self.finished: list[list[RequestRecord]] = [[] for _ in range(NUM_BATCHES + 1)]
        self.each = [Metrics(slo, records.append) for records in self.finished]  # the last one is the drain
        self.num_arrived = [0] * NUM_BATCHES

    def place(self, time: float) -> int:
        return min(int(time / self.seconds), NUM_BATCHES)

    def arrivals(self, trace: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
        """The trace; its requests are counted as they are asked for."""
        for request in trace:
            self.num_arrived[min(self.place(request.arrival_time), NUM_BATCHES - 1)] += 1
            yield request

    def add_tokens(self, requests: Iterable[SimRequest], before: float, now: float) -> None:
        self.each[self.place(now)].add_tokens(requests, before, now)

    def add_finished(self, request: SimRequest, now: float) -> None:
        self.each[self.place(now)].add_finished(request, now)

    def report(self, prefix_queries: int, prefix_hits: int) -> dict[str, Any]:
        """That of the whole run, warm-up and drain included."""
        for each in self.each:
            for name in LATENCIES:
                merge(getattr(self, name), getattr(each, name))
            self.num_finished += each.num_finished
            self.num_good += each.num_good
            self.num_good_by_tpot += each.num_good_by_tpot
            self.end = max(self.end, each.end)
        return super().report(prefix_queries, prefix_hits)

    @property
    def counted(self) -> list[Metrics]:
        """Those after the warm-up and before the drain."""
        return self.each[WARM_UP:NUM_BATCHES]

    def growth(self) -> float:
        """By how much the unfinished requests have become more, as a share of those that arrived meanwhile."""
        changes = (arrived - each.num_finished for arrived, each in zip(self.num_arrived, self.each, strict=False))
        unfinished = list(accumulate(changes))[WARM_UP:]
        third = len(unfinished) // 3
        arrived = sum(self.num_arrived[WARM_UP:]) * (1 - third / len(unfinished))
        return (fmean(unfinished[-third:]) - fmean(unfinished[:third])) / max(arrived, 1)


def steady_state(
    traces: Sequence[Sequence[TraceRequest]],
    config: Mapping[str, Any],
    model: StepTimeModel,
    *,
    num_replicas: int = 1,
    routing: str = "round_robin",
    slo: SLO | None = None,
) -> SteadyState:
    """Simulate each of the traces, from an empty engine. Raises InvalidParameterError, also what simulate() raises."""
    slo, num_requests = slo or SLO(), min(map(len, traces), default=0)
    if num_requests < 10 * NUM_BATCHES:
        raise InvalidParameterError(f"a steady state takes at least {10 * NUM_BATCHES} requests, got {num_requests}")
    runs = [Stretches(slo, trace[-1].arrival_time / NUM_BATCHES) for trace in traces]
    fleet: Any = {"num_replicas": num_replicas, "routing": routing}
    reports = [
        simulate(run.arrivals(trace), config, model, metrics=run, **fleet).report
        for run, trace in zip(runs, traces, strict=True)
    ]
    values = [[figures_of([each], run.seconds) for each in run.counted] for run in runs]
    of_runs = [figures_of(run.counted, run.seconds) for run in runs]
    together = figures_of([each for run in runs for each in run.counted], fmean(run.seconds for run in runs))
    figures, tails = {}, {}
    for name, figure in together.items():
        if figure is None:  # the ITL of answers of one token
            continue
        if name.endswith(TAILS):
            of_each = [value for run in of_runs if (value := run[name]) is not None]
            tails[name] = Spread(figure, min(of_each), max(of_each))
        else:
            of_stretches = [[value for each in run if (value := each[name]) is not None] for run in values]
            figures[name] = interval_of(of_stretches, figure)
    growth, finished = interval([run.growth() for run in runs]), [run.finished[WARM_UP:NUM_BATCHES] for run in runs]
    return SteadyState(figures, tails, growth, reports, num_requests, finished)


def random_traces(
    rate: float, num_requests: int, lengths: Lengths, seeds: Iterable[int], burstiness: float = 1.0
) -> list[list[TraceRequest]]:
    """Arrivals at random, `rate` a second, one trace for each seed. Raises what synthetic() does."""
    return [list(synthetic(rate, num_requests, lengths, burstiness=burstiness, seed=seed)) for seed in seeds]


def merge(sketch: QuantileSketch, other: QuantileSketch) -> None:
    """Count in the first one all that the other one has counted."""
    for index, times in other.buckets.items():
        sketch.buckets[index] = sketch.buckets.get(index, 0) + times
    sketch.count += other.count
    sketch.total += other.total
    sketch.max = max(sketch.max, other.max)


def figures_of(stretches: Sequence[Metrics], seconds: float) -> Figures:
    """All figures of stretches of so many seconds each, together."""
    figures: Figures = {}
    for name in LATENCIES:
        sketch = QuantileSketch()
        for each in stretches:
            merge(sketch, getattr(each, name))
        figures |= {f"{name} {figure}": value for figure, value in sketch.summary().items()}
    num_finished = sum(each.num_finished for each in stretches)
    for suffix in ("", "_by_tpot"):
        num_good = sum(getattr(each, f"num_good{suffix}") for each in stretches)
        figures[f"goodput{suffix}"] = num_good / seconds / len(stretches)
        figures[f"good_share{suffix}"] = num_good / num_finished if num_finished else None
    return figures


def interval_of(runs: Sequence[Sequence[float]], figure: float) -> Interval:
    """The interval of a figure from its values in the stretches of several runs, joined in pairs where they must be."""
    while correlation(runs) > MOST_CORRELATION and min(map(len, runs)) >= 2 * LEAST_BATCHES:
        runs = [[fmean(pair) for pair in zip(run[::2], run[1::2], strict=False)] for run in runs]
    return interval([value for run in runs for value in run], figure)


def correlation(runs: Sequence[Sequence[float]]) -> float:
    """How far a stretch resembles the next one, from -1 to 1."""
    mean = fmean(value for run in runs for value in run)
    spread = fmean((value - mean) ** 2 for run in runs for value in run)
    pairs = [(a - mean) * (b - mean) for run in runs for a, b in pairwise(run)]
    return fmean(pairs) / spread if pairs and spread else 0.0


def interval(values: Sequence[float], figure: float | None = None) -> Interval:
    """A figure, their mean if none is given, and the half-width of its 95 % interval, from independent values."""
    if figure is None:
        figure = fmean(values) if values else math.nan
    n = len(values)
    if n < 2:
        return Interval(figure, math.inf)
    spread = math.sqrt(sum((value - figure) ** 2 for value in values) / (n - 1))
    return Interval(figure, student(n - 1) * spread / math.sqrt(n))


def student(df: int) -> float:
    """The 97.5 % quantile of Student's t, from its expansion around the normal one; the first two by hand."""
    z = NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / (4 * df),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * df**3),
    )
    return {1: 12.706, 2: 4.303}.get(df, sum(terms))
