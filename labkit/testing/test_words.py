"""An expectation that does not hold says what was expected and what came, of whatever kind it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.grade.messages import clip_both
from labkit.labs.catalog import labs
from labkit.prove.laws import says_nothing
from labkit.testing.search import far
from labkit.testing.words import LabFailure, check, where_they_differ

FILES = [file for lab in labs() for file in lab.folder.glob("test_*.py")]


def calls_of(file: Path, method: str) -> Iterator[ast.Call]:
    """The calls see.method(...) in a file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            yield node


def test_a_number_has_its_bounds() -> None:
    see = check()
    see.between("n", 3, 3, 3)
    see.between("n", 3.5, most=4)
    for got, bounds, said in (
        (5, {"most": 4}, "n: expected at most 4, got 5"),
        (0, {"least": 1, "most": 4}, "n: expected at least 1 and at most 4, got 0"),
        (True, {"least": 1}, "n: expected at least 1, got True"),
        (float("nan"), {"least": 1}, "n: expected at least 1, got nan"),
        (None, {"most": 1}, "n: expected at most 1, got None"),
    ):
        with pytest.raises(LabFailure) as failure:
            see.between("n", got, **bounds)
        assert str(failure.value) == said


def test_what_must_hold_says_what_is_there_instead() -> None:
    with pytest.raises(LabFailure, match="two lists: expected yes, got one list, twice"):
        check().true("two lists", 0, "one list, twice")
    with pytest.raises(LabFailure, match="its time: expected at most 6 times as much, got more"):
        check().true("its time", False, "more", "at most 6 times as much")


@pytest.mark.parametrize(
    ("expected", "got", "said"),
    [
        ([1, 2], [1, 3], ("[1, 2]", "[1, 3]")),
        ({1: "a", 2: "b", 3: "c"}, {1: "a", 2: "x"}, ("{2: 'b', 3: 'c'}", "{2: 'x'}")),
        (
            [*range(30)],
            [*range(20), 7, *range(21, 30)],
            (
                "30 entries, from number 20 on [20, 21, 22, 23, 24, 25, 26, 27, 28, 29]",
                "30 entries, from number 20 on [7, 21, 22, 23, 24, 25, 26, 27, 28, 29]",
            ),
        ),
        (
            [*range(18)],
            (*range(17),),
            ("18 entries, from number 17 on [17]", "17 entries, from number 17 on []"),
        ),
    ],
)
def test_where_two_values_differ_is_in_sight(expected: object, got: object, said: tuple[str, str]) -> None:
    assert where_they_differ(expected, got) == said
    if isinstance(expected, list | dict):
        with pytest.raises(LabFailure) as failure:
            check()("values", got, equals=expected)
        assert (failure.value.expected, failure.value.got) == said


def test_two_long_texts_are_not_cut_to_the_same() -> None:
    """Whatever a lab compares: the message's two lines are never equal where the values are not."""
    same = " ".join(map(str, range(100)))
    for ends in (("1", "2"), ("1", ""), ("", " 7")):
        expected, got = clip_both(same + ends[0], same + ends[1])
        assert expected != got
        assert max(len(expected), len(got)) <= 104
    assert clip_both("a " * 80 + "b" * 200, "a " * 80 + "b" * 199 + "c") != ("", "")
    assert clip_both("short", "text") == ("short", "text")


def test_no_lab_compares_numbers_to_yes() -> None:
    """A bound is asked with between(), which shows the number; what else must hold says what is there instead."""
    for file, call in [(each, call) for each in FILES for call in calls_of(each, "true")]:
        where = f"{file.name}:{call.lineno}"
        assert len(call.args) >= 3 or any(isinstance(each, ast.Starred) for each in call.args), where
        for node in ast.walk(call.args[1]):
            if isinstance(node, ast.Compare):
                assert all(isinstance(each, ast.Is | ast.IsNot) for each in node.ops), where


def test_a_far_size_is_drawn_at_night(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIGHTLY", "")
    assert {far(5, 9) for _ in range(99)} == {5}
    monkeypatch.setenv("NIGHTLY", "1")
    sizes = {far(5, 9) for _ in range(999)}
    assert sizes == {5, 6, 7, 8, 9}


def test_the_proof_refuses_a_message_that_shows_no_difference() -> None:
    for expected, got, is_empty in (("1 2 ...", "1 2 ...", True), ("yes", "no", True), ("yes", "None", False)):
        assert says_nothing(f"Idea\n\n  what\n    expected  {expected}\n    got       {got}\n  next") is is_empty
    assert not says_nothing("TODO  05.5")
