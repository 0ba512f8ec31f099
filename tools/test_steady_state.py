"""Steady states: against a queue that can be computed by hand, at other seeds and lengths, and where there is none."""

import math
from random import Random
from statistics import fmean

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.workload import lognormal_lengths, synthetic
from mini_vllm.simulator.calibration import load_calibration
from mini_vllm.simulator.fleet import policy_config, simulate
from mini_vllm.simulator.metrics import SLO, Metrics, QuantileSketch, RequestRecord
from mini_vllm.simulator.step_time import StepTimeModel
from tools.steady_state import (
    Interval,
    SteadyState,
    correlation,
    interval,
    interval_of,
    random_traces,
    steady_state,
)

# One request at a time, one second for each: a queue with random arrivals and a fixed time of service (M/D/1).
ONE_AT_A_TIME = {"block_size": 4, "num_blocks": 9, "max_num_seqs": 1, "max_num_batched_tokens": 8}
ONE_SECOND = StepTimeModel((1.0, 0, 0, 0, 0, 0))


def queue(rate: float, num_requests: int = 4000, seeds: range = range(4)) -> SteadyState:
    traces = random_traces(rate, num_requests, lognormal_lengths(1, 1), seeds)
    return steady_state(traces, ONE_AT_A_TIME, ONE_SECOND)


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("num_requests", [4000, 8000])
@pytest.mark.nightly
def test_the_time_in_a_queue_is_that_of_the_theory(rate: float, num_requests: int) -> None:
    """Pollaczek and Khinchine: the wait is rate / (2 * (1 - rate)) services."""
    state = queue(rate, num_requests)
    expected = 1 + rate / (2 * (1 - rate))
    mean, half_width = state.figures["ttft mean"]
    assert abs(mean - expected) < 1.5 * half_width
    assert half_width < 0.15 * expected
    assert not state.is_over_capacity


def held(states: list[SteadyState], name: str, expected: float) -> float:
    """In how many of the trials, as a share, the interval of a figure holds what is expected."""
    error = QuantileSketch.RELATIVE_ERROR * expected if name.endswith("p50") else 0.0
    found = [state.figures[name] for state in states]
    return sum(abs(each.mean - expected) <= each.half_width + error for each in found) / len(found)


@pytest.mark.nightly
def test_intervals_hold_the_figure_as_often_as_they_say() -> None:
    states = [queue(0.6, 2000, range(100 + 3 * i, 103 + 3 * i)) for i in range(40)]
    assert held(states, "ttft mean", 1 + 0.6 / (2 * 0.4)) >= 0.85, "at a confidence of 95 %"


def time_in_system(rate: float, share: float) -> float:
    """The quantile of wait and service of an M/D/1 queue. Source: the distribution of the wait, Erlang, 1909."""

    def reached(wait: float) -> float:
        arrivals = [rate * (wait - k) for k in range(int(wait) + 1)]
        return (1 - rate) * sum((-a) ** k / math.factorial(k) * math.exp(a) for k, a in enumerate(arrivals))

    low, high = 0.0, 30.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) < share else (low, middle)
    return 1 + high


@pytest.mark.nightly
@pytest.mark.parametrize("rate", [0.5, 0.8])
def test_intervals_of_a_queue_hold_what_theory_says(rate: float) -> None:
    """60 trials of three runs, as the figures of the book have."""
    states = [queue(rate, 5000, range(3 * i, 3 * i + 3)) for i in range(60)]
    assert held(states, "ttft mean", 1 + rate / (2 * (1 - rate))) >= 0.9
    assert held(states, "ttft p50", time_in_system(rate, 0.5)) >= 0.9


@pytest.mark.nightly
def test_intervals_of_a_scheduler_hold_the_figure_of_all_trials() -> None:
    """V1 at a high load, 20 trials of three runs. Their 60 runs together are the long run."""
    model = load_calibration("llama-3.1-8b-h100")
    traces = random_traces(16, 5000, lognormal_lengths(1024, 128, 1.0), range(60))
    config = policy_config("v1", model.about["engine"])
    states = [steady_state(traces[i : i + 3], config, model) for i in range(0, 60, 3)]
    for name in ("ttft p50", "itl p50", "itl mean"):
        assert held(states, name, fmean(state.figures[name].mean for state in states)) >= 0.9, name


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
