"""The figures of a load that goes on for ever, with what they leave uncertain; or that there are none.

A run begins with an empty engine and ends in a drain, when nobody arrives any more. Neither is what a server does all
day, and in a short run they are all there is. So a run is cut into NUM_BATCHES stretches of equal time, from the first
arrival to the last. The first WARM_UP of them are left out, and so is the drain. Each other stretch gives one value of
every figure. The mean of these values, over all seeds, is the figure, and their spread its confidence interval
(Student's t, 95 %). Neighbouring stretches resemble each other when a queue comes and goes slowly. Then they are joined
in pairs until they do not.

A system that gets more than it can do has no steady state: its queue grows as long as one looks, and its latencies
with it. The growth is the share of the arrivals after the warm-up by which the number of unfinished requests has risen.
Above MOST_GROWTH the system is over its capacity.
Source: the method of batch means, Law, Simulation Modeling and Analysis, chapter 9.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, fmean, stdev
from typing import Any, NamedTuple

from mini_vllm.errors import InvalidParameterError
from mini_vllm.simulator.fleet import simulate
from mini_vllm.simulator.metrics import SLO, Metrics
from mini_vllm.simulator.sim_request import SimRequest
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.simulator.workload import Lengths, TraceRequest, synthetic

NUM_BATCHES, WARM_UP = 20, 5
MOST_CORRELATION = 0.2  # of neighbouring stretches; above it they are joined
LEAST_BATCHES = 5  # of one run, when they are joined
MOST_GROWTH = 0.02  # of the arrivals
LATENCIES = ("ttft", "itl", "tpot", "e2e")


class Interval(NamedTuple):
    """A figure: it lies within mean - half_width and mean + half_width, with a confidence of 95 %."""

    mean: float
    half_width: float

    def is_below(self, other: "Interval") -> bool:
        """Whether it is less for certain: the intervals do not overlap."""
        return self.mean + self.half_width < other.mean - other.half_width


@dataclass(frozen=True, slots=True)
class SteadyState:
    """figures: "ttft mean", "ttft p50" and the like in seconds, "goodput" a second, "good_share", "goodput_by_tpot"."""

    figures: Mapping[str, Interval]
    growth: Interval
    num_requests: int  # of each seed
    seeds: tuple[int, ...]

    @property
    def is_over_capacity(self) -> bool:
        return self.growth.mean > MOST_GROWTH


class Stretches(Metrics):
    """Metrics of each stretch of a run: what happens at `now` belongs to the one that it falls into."""

    def __init__(self, slo: SLO, seconds: float) -> None:
        super().__init__(slo)
        self.seconds = seconds  # of one
        self.each = [Metrics(slo) for _ in range(NUM_BATCHES + 1)]  # and of the drain
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

    def growth(self) -> float:
        """By how much the unfinished requests have become more, as a share of those that arrived meanwhile."""
        arrived = sum(self.num_arrived[WARM_UP:])
        finished = sum(each.num_finished for each in self.each[WARM_UP:NUM_BATCHES])
        return (arrived - finished) / max(arrived, 1)

    def figures(self) -> dict[str, list[float]]:
        """The values of every figure, one of each stretch that has any."""
        found: dict[str, list[float]] = {}
        for metrics in self.each[WARM_UP:NUM_BATCHES]:
            for name in LATENCIES:
                for figure, value in getattr(metrics, name).summary().items():
                    found.setdefault(f"{name} {figure}", []).append(value)
            for suffix, num_good in (("", metrics.num_good), ("_by_tpot", metrics.num_good_by_tpot)):
                found.setdefault(f"goodput{suffix}", []).append(num_good / self.seconds)
                share = num_good / metrics.num_finished if metrics.num_finished else None
                found.setdefault(f"good_share{suffix}", []).append(share)  # type: ignore[arg-type]
        return {name: [value for value in values if value is not None] for name, values in found.items()}


def steady_state(
    rate: float,
    lengths: Lengths,
    config: Mapping[str, Any],
    model: StepTimeModel,
    *,
    num_requests: int = 5000,
    seeds: Sequence[int] = range(3),
    burstiness: float = 1.0,
    num_replicas: int = 1,
    routing: str = "round_robin",
    slo: SLO | None = None,
) -> SteadyState:
    """Simulate arrivals at random, `rate` a second, once for each seed. Raises what synthetic() and simulate() do."""
    if len(seeds) < 2 or num_requests < 10 * NUM_BATCHES:
        least = f"at least 2 seeds and {10 * NUM_BATCHES} requests"
        raise InvalidParameterError(f"a steady state takes {least}, got {len(seeds)} and {num_requests}")
    runs = []
    for seed in seeds:
        trace = synthetic(rate, num_requests, lengths, burstiness=burstiness, seed=seed)
        stretches = Stretches(slo or SLO(), num_requests / rate / NUM_BATCHES)
        arrivals = stretches.arrivals(trace)
        simulate(arrivals, config, model, num_replicas=num_replicas, routing=routing, metrics=stretches)
        runs.append(stretches)
    values = [run.figures() for run in runs]
    seen = [name for name in values[0] if any(each[name] for each in values)]  # no ITL of answers of one token
    figures = {name: interval_of([each[name] for each in values]) for name in seen}
    return SteadyState(figures, interval([run.growth() for run in runs]), num_requests, tuple(seeds))


def interval_of(runs: Sequence[Sequence[float]]) -> Interval:
    """The interval of a figure from its values in the stretches of several runs, joined in pairs where they must be."""
    while correlation(runs) > MOST_CORRELATION and min(map(len, runs)) >= 2 * LEAST_BATCHES:
        runs = [[fmean(pair) for pair in zip(run[::2], run[1::2], strict=False)] for run in runs]
    return interval([value for run in runs for value in run])


def correlation(runs: Sequence[Sequence[float]]) -> float:
    """How far a stretch resembles the next one, from -1 to 1."""
    mean = fmean(value for run in runs for value in run)
    spread = fmean((value - mean) ** 2 for run in runs for value in run)
    pairs = [(a - mean) * (b - mean) for run in runs for a, b in pairwise(run)]
    return fmean(pairs) / spread if pairs and spread else 0.0


def interval(values: Sequence[float]) -> Interval:
    """Mean and half-width of a 95 % interval of independent values."""
    if len(values) < 2:
        return Interval(fmean(values) if values else math.nan, math.inf)
    return Interval(fmean(values), student(len(values) - 1) * stdev(values) / math.sqrt(len(values)))


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
