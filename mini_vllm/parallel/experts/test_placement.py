"""Experts are placed by their loads: all of them, none twice on a rank, and evenly."""

from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.errors import InvalidParameterError
from mini_vllm.parallel.experts.placement import (
    count_copies,
    expert_maps,
    place_experts,
    rank_loads,
    spread_evenly,
)
from mini_vllm.parallel.experts.shard import read_loads


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Loads, ranks, redundant experts."""
    num_ranks = draw(st.integers(1, 5))
    loads = draw(st.lists(st.integers(0, 100), min_size=num_ranks, max_size=9))
    return loads, num_ranks, draw(st.integers(0, len(loads) * (num_ranks - 1)))


@given(cases())
def test_every_expert_has_a_place_and_no_rank_has_it_twice(
    case: tuple[list[int], int, int],
) -> None:
    loads, num_ranks, num_redundant = case
    placement = place_experts(loads, num_ranks, num_redundant)
    total = len(loads) + num_redundant
    assert len(placement) == num_ranks
    assert sum(map(len, placement)) == total
    assert all(1 <= len(own) <= -(-total // num_ranks) for own in placement)
    assert all(list(own) == sorted(set(own)) for own in placement)
    assert set().union(*placement) == set(range(len(loads)))
    found = rank_loads(loads, placement)
    assert sum(found) == pytest.approx(sum(loads))
    for own, slots in zip(placement, expert_maps(placement, len(loads)), strict=True):
        assert [each for each in slots if each >= 0] == [*range(len(own))]
        assert [expert for expert, slot in enumerate(slots) if slot >= 0] == [*own]
    if num_redundant == 0:  # the last expert of a rank came when no open rank had less to do
        for (heavy, own), (light, other) in product(zip(found, placement, strict=True), repeat=2):
            if len(other) < -(-total // num_ranks) and len(own) > 1:
                assert heavy - min(loads[expert] for expert in own) <= light


@given(
    loads=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    num_ranks=st.integers(1, 3),
    data=st.data(),
)
def test_copies_make_the_largest_load_as_small_as_it_can_be(
    loads: list[int], num_ranks: int, data: st.DataObject
) -> None:
    num_redundant = data.draw(st.integers(0, len(loads) * (num_ranks - 1)))
    copies = count_copies(loads, num_ranks, num_redundant)
    all_of_them = [
        each
        for each in product(range(1, num_ranks + 1), repeat=len(loads))
        if sum(each) == len(loads) + num_redundant
    ]
    assert tuple(copies) in all_of_them
    worst = [max(a / b for a, b in zip(loads, each, strict=True)) for each in all_of_them]
    assert max(a / b for a, b in zip(loads, copies, strict=True)) == min(worst)


@pytest.mark.parametrize(
    ("loads", "num_ranks", "num_redundant", "placement"),
    [
        # as vllm/distributed/eplb/policy/default.py (0.33.0) places them
        ([90, 132, 40, 61, 104, 165], 3, 0, ((2, 5), (1, 3), (0, 4))),
        ([90, 132, 40, 61, 104, 165], 2, 2, ((1, 2, 4, 5), (0, 1, 3, 5))),
        ([10, 100, 2, 1, 30], 2, 1, ((1, 3, 4), (0, 1, 2))),
        # where that has experts 0 0 1 on rank 0
        ([100, 1, 1, 4], 2, 2, ((0, 1, 3), (0, 2, 3))),
    ],
)
def test_placements_that_are_known(
    loads: list[int], num_ranks: int, num_redundant: int, placement: object
) -> None:
    assert place_experts(loads, num_ranks, num_redundant) == placement


def test_without_loads_neighbours_stay_together() -> None:
    assert spread_evenly(7, 3) == ((0, 1, 2), (3, 4), (5, 6))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (([1], 2, 0), "1 experts on 2 ranks: every rank needs one"),
        (([1], 0, 0), "1 experts on 0 ranks"),
        (([1, 1], 2, 3), r"num_redundant_experts is 3, allowed is \[0, 2\]"),
        (([1, 1], 2, -1), "num_redundant_experts is -1"),
        (([1, -1], 2, 0), "the load of expert 1 is -1, it must be >= 0"),
        (([1, float("nan")], 2, 0), "the load of expert 1 is nan"),
    ],
)
def test_what_has_no_placement_is_refused(case: tuple[list[float], int, int], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        place_experts(*case)


@pytest.mark.parametrize(
    "text", ['{"0": [1], "00": [2]}', '{"-5": [1]}', '{"1_0": [1]}', '{"0": []}', '{" 1": [1]}']
)
def test_loads_of_what_is_no_layer_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "loads.json"
    file.write_text('{"0": [1, 2.5], "10": [0]}')
    assert read_loads(file) == {0: [1, 2.5], 10: [0]}
    file.write_text(text)
    with pytest.raises(InvalidParameterError, match=r"cannot be read as loads: .*a layer is"):
        read_loads(file)


def test_a_file_of_loads_may_come_later_unless_it_never_can(tmp_path: Path) -> None:
    assert read_loads(tmp_path / "loads.json") == {}
    with pytest.raises(InvalidParameterError, match="cannot be read as loads"):
        read_loads(tmp_path / ("x" * 300))
