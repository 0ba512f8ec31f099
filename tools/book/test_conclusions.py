"""The pages say what is concluded from simulations. By day the means say so, too, and at night their intervals."""

import os
import subprocess
import sys

import pytest

from mini_vllm.simulator.metrics import SLO, RequestRecord
from tools.book.check import DOCS, ROOT
from tools.book.conclusions import (
    BY_DAY,
    CONCLUSIONS,
    NUM_REQUESTS,
    Alike,
    Bound,
    Capacity,
    Conclusion,
    Less,
    Load,
    judged,
    of_means,
    says,
    simulate_all,
)
from tools.steady_state import Interval, Spread, SteadyState

A, B = Load("v1", 1), Load("v1", 2)


def states(a: tuple[float, float], b: tuple[float, float], growth: float = 0.0) -> dict[Load, SteadyState]:
    each = (SteadyState({"x": Interval(*figure)}, {}, Interval(growth, 0.0), [], 0) for figure in (a, b))
    return dict(zip((A, B), each, strict=True))


def test_a_comparison_holds_when_the_intervals_leave_no_doubt() -> None:
    apart, touching = states((1.0, 0.1), (2.0, 0.2)), states((1.0, 0.5), (2.0, 0.6))
    assert Less("x", A, B).found(apart) == (True, "1 ± 0.1 and 2 ± 0.2")
    assert not Less("x", A, B).found(touching)[0]
    assert not Less("x", B, A).found(apart)[0]
    assert Less("x", A, B, 1.6).found(apart)[0]
    assert not Less("x", A, B, 1.7).found(apart)[0]
    assert [Alike("x", A, B).found(each)[0] for each in (apart, touching)] == [False, True]
    assert not Alike("x", B, A).found(apart)[0]
    assert Bound("x", A, 0.9, 1.1).found(apart)[0]
    assert not Bound("x", A, low=0.91).found(apart)[0]
    assert not Bound("x", A, high=1.09).found(apart)[0]
    over = states((1, 0), (1, 0), growth=0.3)
    assert Capacity(A, True).found(over) == (True, "growth 30.0 %")
    assert Capacity(A, False).found(apart)[0]
    assert not Capacity(A, True).found(apart)[0]


def test_a_tail_is_less_when_each_run_is() -> None:
    def tails(a: Spread, b: Spread) -> dict[Load, SteadyState]:
        return {load: SteadyState({}, {"x p99": each}, Interval(0, 0), [], 0) for load, each in ((A, a), (B, b))}

    apart, touching = tails(Spread(1.0, 0.9, 1.1), Spread(2.0, 1.8, 2.1)), tails(Spread(1, 0.9, 1.1), Spread(2, 1.1, 3))
    assert Less("x p99", A, B).found(apart) == (True, "1 (0.9 to 1.1) and 2 (1.8 to 2.1)")
    assert not Less("x p99", A, B).found(touching)[0]
    assert Less("x p99", A, B, 1.6).found(apart)[0]
    assert not Less("x p99", A, B, 1.7).found(apart)[0]
    assert [Alike("x p99", A, B).found(each)[0] for each in (apart, touching)] == [False, True]


def test_other_limits_judge_the_same_simulation() -> None:
    late = RequestRecord(
        0, 0.0, 8, 2, ttft=1.0, tpot=0.2, tail_itl=0.3, e2e=1.3, num_cached_tokens=0, num_preemptions=0
    )
    good = {"good_share": Interval(0.9, 0.0)}
    state = SteadyState(good, {}, Interval(0, 0), [], 0, [[[late], [late]], [[late], []]])
    assert judged(state, SLO()) is state
    assert {name: each.mean for name, each in judged(state, SLO(2.0, 0.25)).figures.items()} == {
        "good_share": 0.0,
        "good_share_by_tpot": 1.0,
    }


@pytest.mark.parametrize("each", CONCLUSIONS, ids=lambda each: each.sentence)
def test_the_page_says_it(each: Conclusion) -> None:
    assert says((DOCS / each.page).read_text(encoding="utf-8"), each.sentence)


@pytest.mark.slow
def test_they_hold() -> None:
    """At night without doubt, from the longest simulation; by day the order of the means, from a short one."""
    by_night = bool(os.environ.get("NIGHTLY"))
    states = simulate_all(NUM_REQUESTS[1] if by_night else BY_DAY)
    states = states if by_night else of_means(states)
    bases = {basis for each in CONCLUSIONS for basis in each.rests_on}
    comparisons = {basis for basis in bases if by_night or not isinstance(basis, Alike | Capacity)}
    found = {basis: basis.found(states) for basis in comparisons}
    assert [f"{basis}: {text}" for basis, (holds, text) in found.items() if not holds] == []


@pytest.mark.nightly
def test_the_load_page_is_what_the_simulator_says() -> None:
    done = subprocess.run([sys.executable, "tools/book/load.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
