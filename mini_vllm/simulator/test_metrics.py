"""Latencies and goodput: the sketch against sorted values, the definitions on runs small enough to
do by hand.
"""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.workload import TraceRequest
from mini_vllm.simulator.fleet import simulate
from mini_vllm.simulator.metrics import SLO, QuantileSketch, Timeline, TimelinePoint
from mini_vllm.simulator.step_time import StepTimeModel

CONFIG = {"block_size": 4, "num_blocks": 101, "max_num_seqs": 8, "max_num_batched_tokens": 8}
ONE_SECOND = StepTimeModel((1.0, 0, 0, 0, 0, 0))


@settings(derandomize=True, database=None, deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.floats(1e-8, 1e7), st.integers(1, 3)), min_size=1),
    st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_quantiles_are_within_the_stated_error(values: list[tuple[float, int]], q: float) -> None:
    sketch = QuantileSketch()
    for value, times in values:
        sketch.add(value, times)
    exact = sorted(value for value, times in values for _ in range(times))
    assert sketch.count == len(exact)
    assert sketch.max == exact[-1]
    assert sketch.quantile(q) == pytest.approx(
        exact[math.ceil(q * len(exact)) - 1], rel=1.01 * sketch.RELATIVE_ERROR
    )


def test_a_sketch_of_nothing_and_of_zero() -> None:
    sketch = QuantileSketch()
    assert sketch.summary() == {"mean": None, "p50": None, "p90": None, "p99": None}
    sketch.add(0.0)
    assert sketch.summary() == {"mean": 0.0, "p50": 0.0, "p90": 0.0, "p99": 0.0}


def test_a_timeline_keeps_the_whole_run_in_bounded_memory() -> None:
    timeline = Timeline()
    for i in range(50_000):
        timeline.add(TimelinePoint(float(i), 0, 0, 0.0))
    times = [point.time for point in timeline.points]
    assert Timeline.MAX_POINTS / 2 <= len(times) < Timeline.MAX_POINTS
    gaps = {b - a for a, b in pairwise(times)}
    assert times[0] == 0.0
    assert len(gaps) == 1
    assert times[-1] > 50_000 - 2 * gaps.pop()


def exactly(value: float) -> object:
    return pytest.approx(value, rel=QuantileSketch.RELATIVE_ERROR)


def test_latencies_of_two_requests_by_hand() -> None:
    # Steps end at 1, 2, ...: a (8 prompt tokens, 4 output) computes its prompt in [0, 1). b arrives
    # at 0.5 with 14 tokens: 7 beside a's decode in [1, 2) and 7 in [2, 3), where it gets its only
    # token.
    report = simulate(
        [TraceRequest(0.0, 8, 4), TraceRequest(0.5, 14, 1)], CONFIG, ONE_SECOND
    ).report
    assert (report["requests"], report["steps"], report["makespan"]) == (2, 4, 4.0)
    assert report["ttft"]["p50"] == exactly(1.0)
    assert report["ttft"]["p99"] == exactly(2.5)
    assert report["ttft"]["mean"] == pytest.approx(1.75)
    assert report["itl"]["p99"] == exactly(1.0)
    assert report["tpot"]["p99"] == exactly(1.0)  # b has none
    assert report["e2e"]["p50"] == exactly(2.5)
    assert report["e2e"]["p99"] == exactly(4.0)
    assert (report["output_tokens"], report["output_tokens_per_s"]) == (5, 1.25)
    assert report["scheduled_tokens"] == 8 + 14 + 3


@pytest.mark.parametrize(
    ("slo", "good"),
    [
        (SLO(ttft=2.5, itl=1.0), 2),
        (SLO(ttft=2.4, itl=1.0), 1),  # not b
        (SLO(ttft=2.5, itl=0.9), 1),  # not a; b has no gap
        (SLO(ttft=0.9, itl=0.9), 0),
    ],
)
def test_goodput_counts_requests_that_keep_both_limits(slo: SLO, good: int) -> None:
    report = simulate(
        [TraceRequest(0.0, 8, 4), TraceRequest(0.5, 14, 1)], CONFIG, ONE_SECOND, slo=slo
    ).report
    assert (report["good_share"], report["goodput"]) == (good / 2, good / 4)


@pytest.mark.parametrize(("output_length", "good"), [(101, 1.0), (100, 0.0)])
def test_one_gap_in_a_hundred_may_be_slow(output_length: int, good: float) -> None:
    # A second for each token: the prompt of 3 tokens, which waits 0.5 s, makes one gap of the other
    # request 4 s long.
    model = StepTimeModel((0.0, 0, 1.0, 0, 0, 0))
    config = CONFIG | {"max_num_batched_tokens": 4}
    trace = [TraceRequest(0.0, 1, output_length), TraceRequest(10.5, 3, 1)]
    report = simulate(trace, config, model, slo=SLO(ttft=4.5, itl=1.5)).report
    assert report["max_itl"] == 4.0
    assert report["good_share"] == (1 + good) / 2


def test_refused_requests_are_counted_and_not_good() -> None:
    report = simulate(
        [TraceRequest(0.0, 401, 1), TraceRequest(0.0, 4, 1)], CONFIG, ONE_SECOND
    ).report
    assert (report["requests"], report["refused"], report["good_share"]) == (1, 1, 0.5)


def test_an_empty_trace_has_a_report() -> None:
    report = simulate([], CONFIG, ONE_SECOND).report
    assert (report["requests"], report["goodput"], report["ttft"]["p99"]) == (0, 0.0, None)


def test_limits_must_be_positive() -> None:
    with pytest.raises(InvalidParameterError, match="got 0 and 1"):
        SLO(0, 1)
