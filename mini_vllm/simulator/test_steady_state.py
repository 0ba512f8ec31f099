"""Steady states: against a queue that can be computed by hand, at other seeds and lengths, and where there is none."""

import math
from random import Random

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.simulator.fleet import simulate
from mini_vllm.simulator.metrics import SLO, Metrics, RequestRecord
from mini_vllm.simulator.steady_state import (
    Interval,
    SteadyState,
    correlation,
    interval,
    interval_of,
    random_traces,
    steady_state,
)
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.simulator.workload import lognormal_lengths, synthetic

# One request at a time, one second for each: a queue with random arrivals and a fixed time of service (M/D/1).
ONE_AT_A_TIME = {"block_size": 4, "num_blocks": 9, "max_num_seqs": 1, "max_num_batched_tokens": 8}
ONE_SECOND = StepTimeModel((1.0, 0, 0, 0, 0, 0))


def queue(rate: float, num_requests: int = 4000, seeds: range = range(4)) -> SteadyState:
    traces = random_traces(rate, num_requests, lognormal_lengths(1, 1), seeds)
    return steady_state(traces, ONE_AT_A_TIME, ONE_SECOND)


@pytest.mark.parametrize("rate", [0.8, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (0.3, 0.5))])
@pytest.mark.parametrize("num_requests", [4000, pytest.param(8000, marks=pytest.mark.slow)])
def test_the_time_in_a_queue_is_that_of_the_theory(rate: float, num_requests: int) -> None:
    """Pollaczek and Khinchine: the wait is rate / (2 * (1 - rate)) services."""
    state = queue(rate, num_requests)
    expected = 1 + rate / (2 * (1 - rate))
    mean, half_width = state.figures["ttft mean"]
    assert abs(mean - expected) < 1.5 * half_width
    assert half_width < 0.15 * expected
    assert not state.is_over_capacity


@pytest.mark.slow
def test_intervals_hold_the_figure_as_often_as_they_say() -> None:
    expected = 1 + 0.6 / (2 * 0.4)
    states = [queue(0.6, 2000, range(100 + 3 * i, 103 + 3 * i)) for i in range(40)]
    held = sum(
        abs(each.figures["ttft mean"].mean - expected) <= each.figures["ttft mean"].half_width for each in states
    )
    assert held >= 33, "of 40, at a confidence of 95 %"


@pytest.mark.parametrize("seeds", [range(3), range(7, 10), range(20, 23)])
@pytest.mark.parametrize("num_requests", [1000, pytest.param(4000, marks=pytest.mark.slow)])
def test_what_cannot_be_served_is_over_capacity(seeds: range, num_requests: int) -> None:
    state = queue(1.25, num_requests, seeds)
    assert state.is_over_capacity
    assert state.growth.mean == pytest.approx(0.2, abs=0.05)


def test_the_drain_and_the_warm_up_are_no_part_of_it() -> None:
    """Over capacity the last request waits longest; a figure of the whole run would have it."""
    state = queue(1.25, 1000)
    waits: list[float] = []
    for trace in random_traces(1.25, 1000, lognormal_lengths(1, 1), range(4)):
        simulate(trace, ONE_AT_A_TIME, ONE_SECOND, metrics=Metrics(SLO(), lambda each: waits.append(each.ttft)))
    assert state.tails["ttft p99"].mean < 0.9 * sorted(waits)[len(waits) * 99 // 100]
    assert state.figures["goodput"].mean <= 1.0


def test_values_that_hang_together_are_joined() -> None:
    rng = Random(0)
    alone = [[rng.gauss(0, 1) for _ in range(16)] for _ in range(3)]
    drifting = [[sum(run[: i + 1]) for i in range(16)] for run in alone]
    assert correlation(alone) < 0.2 < correlation(drifting)
    assert interval_of(alone, 0.1) == interval([value for run in alone for value in run], 0.1)
    assert (
        interval_of(drifting, 3.0).half_width > interval([value for run in drifting for value in run], 3.0).half_width
    )
    assert interval_of(drifting, 3.0).mean == 3.0


def test_an_interval_by_hand() -> None:
    assert interval([1.0, 3.0]) == Interval(2.0, pytest.approx(12.706))
    assert interval([1.0, 2.0, 3.0]).half_width == pytest.approx(4.303 / math.sqrt(3))
    assert interval([4.0] * 10 + [6.0] * 10).half_width == pytest.approx(2.093 * 1.0260 / math.sqrt(20), rel=1e-3)
    assert interval([5.0]).half_width == math.inf
    assert interval([1.0, 3.0], 2.5) == Interval(2.5, pytest.approx(12.706 * math.sqrt((1.5**2 + 0.5**2) / 2)))
    assert Interval(1, 0.4).is_below(Interval(2, 0.5))
    assert not Interval(1, 0.5).is_below(Interval(2, 0.5))


@pytest.mark.parametrize(("seeds", "num_requests"), [(range(0), 4000), (range(3), 100)])
def test_too_little_is_refused(seeds: range, num_requests: int) -> None:
    with pytest.raises(InvalidParameterError, match="at least 200 requests"):
        queue(0.5, num_requests, seeds)


@pytest.mark.slow
def test_a_figure_is_that_of_all_stretches_together() -> None:
    """A percentile of a part lies off that of the whole: the whole is said, and the interval is wider for it."""
    state = queue(0.8, 4000)
    seen: list[RequestRecord] = []
    for seed in range(4):
        trace = synthetic(0.8, 4000, lognormal_lengths(1, 1), seed=seed)
        end = list(synthetic(0.8, 4000, lognormal_lengths(1, 1), seed=seed))[-1].arrival_time
        found: list[RequestRecord] = []
        simulate(trace, ONE_AT_A_TIME, ONE_SECOND, metrics=Metrics(SLO(), found.append))
        seen += [each for each in found if end / 4 <= each.arrival_time + each.ttft < end]
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        exact = sorted(each.ttft for each in seen)[math.ceil(share * len(seen)) - 1]
        figure = state.tails["ttft p99"] if name == "p99" else state.figures["ttft p50"]
        assert figure.mean == pytest.approx(exact, rel=0.0051)
