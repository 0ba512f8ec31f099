"""What the pages conclude from simulations stands in them, and holds at three seeds and at twice the length."""

import subprocess
import sys

import pytest

from mini_vllm.simulator.steady_state import Interval, SteadyState
from tools.book.check import DOCS, ROOT
from tools.book.conclusions import (
    CONCLUSIONS,
    NUM_REQUESTS,
    Alike,
    Bound,
    Capacity,
    Conclusion,
    Less,
    Load,
    says,
    simulate_load,
)

A, B = Load("v1", 1), Load("v1", 2)


def states(a: tuple[float, float], b: tuple[float, float], growth: float = 0.0) -> dict[Load, SteadyState]:
    each = (SteadyState({"x": Interval(*figure)}, Interval(growth, 0.0), [], 0) for figure in (a, b))
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


@pytest.mark.parametrize("each", CONCLUSIONS, ids=lambda each: each.sentence)
def test_the_page_says_it(each: Conclusion) -> None:
    assert says((DOCS / each.page).read_text(encoding="utf-8"), each.sentence)


@pytest.mark.slow
@pytest.mark.parametrize("each", CONCLUSIONS, ids=lambda each: each.sentence)
def test_it_holds_at_both_lengths(each: Conclusion) -> None:
    for num_requests in NUM_REQUESTS:
        for basis in each.rests_on:
            holds, found = basis.found({load: simulate_load(load, num_requests) for load in basis.loads})
            assert holds, f"{basis} at {num_requests} requests a seed: {found}"


@pytest.mark.slow
def test_the_load_page_is_what_the_simulator_says() -> None:
    done = subprocess.run([sys.executable, "tools/book/load.py", "--check"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
