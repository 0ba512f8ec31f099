"""The words that a lab's tests are written in.

A test takes the fixture `lab`, is marked with the one idea that it checks, and states each expectation with `check`,
which carries what a failure must show: the invariant, and the smallest state before and after.

    @concept("The budget is shared: what one request takes, the next one cannot have.", invariant="I2")
    def test_two_prompts_share_a_budget(lab):
        scheduler = ...
        see = check(lab.draw.scheduler, scheduler)
        output = scheduler.schedule()
        see("tokens of request b in step 1", output.num_scheduled_tokens["b"], equals=3)
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import WrapperDescriptorType
from typing import Any, NamedTuple, NoReturn, TypeVar

MOST_SHOWN = 16  # entries of a sequence

Function = TypeVar("Function", bound=Callable[..., Any])


class LabTodo(NotImplementedError):
    """A part that is not written yet."""

    def __init__(self, lab_id: str) -> None:
        super().__init__(f"lab {lab_id} is not written yet")
        self.lab_id = lab_id


def todo(lab_id: str) -> NoReturn:
    """The body of every function in a stub."""
    raise LabTodo(lab_id)


class LabFailure(AssertionError):
    """An expectation that did not hold, in parts; labkit.grade.messages puts them in order."""

    def __init__(
        self,
        what: str,
        expected: str,
        got: str,
        before: str = "",
        after: str = "",
        *,
        calls: str = "",
        invariant: str = "",
    ) -> None:
        """calls: what was called, a line each, when that is what led here. invariant: another one than the test's."""
        super().__init__(f"{what}: expected {expected}, got {got}")
        self.what, self.expected, self.got = what, expected, got
        self.before, self.after, self.calls, self.invariant = before, after, calls, invariant


class Concept(NamedTuple):
    """The idea that a test checks, the invariant of contract.md that it rests on, and what kind of test it is."""

    idea: str
    invariant: str
    illustrates: bool
    searches: bool = False
    nearest: bool = False


def concept(
    idea: str, *, invariant: str, illustrates: bool = False, searches: bool = False, nearest: bool = False
) -> Callable[[Function], Function]:
    """Mark a test with its one idea.

    illustrates: it may find nothing that no other test of the lab finds.
    searches: it tries many cases at random (labkit.testing.search), so it finds what the other tests find, and more.
    nearest: nothing but its own rule makes it red, so of all that is red it is shown first.
    """

    def mark(test: Function) -> Function:
        test.lab_concept = Concept(idea, invariant, illustrates, searches, nearest)  # type: ignore[attr-defined]
        return test

    return mark


def cases(**named: Any) -> Callable[[Function], Function]:
    """Run the test once for each value, as its argument `case`; the name appears in the test's id."""

    def mark(test: Function) -> Function:
        test.lab_cases = named  # type: ignore[attr-defined]
        return test

    return mark


class Check:
    """One expectation after the other about one thing, with the state that led to it."""

    def __init__(self, draw: Callable[..., str] | None, *drawn: Any) -> None:
        self._draw = partial(draw, *drawn) if draw else str
        self.before = self._draw()

    def __call__(self, what: str, got: Any, equals: Any) -> None:
        """got must equal `equals`; lists and tuples of equal content are equal."""
        self.compared()
        both = isinstance(got, list | tuple) and isinstance(equals, list | tuple)
        if not same(list(got), list(equals)) if both else not same(got, equals):
            self.fail(what, *where_they_differ(equals, got))

    def true(self, what: str, holds: object, got: str = "no", expected: str = "yes") -> None:
        """`what` must hold. got: what is there instead, in words; what was measured is not in it, but its bound."""
        self.compared()
        if not holds:
            self.fail(what, expected, got)

    def between(self, what: str, got: Any, least: float | None = None, most: float | None = None) -> None:
        """got must be a number that is neither less than `least` nor more than `most`."""
        self.compared()
        bounds = [f"{name} {bound!r}" for name, bound in (("at least", least), ("at most", most)) if bound is not None]
        is_number = isinstance(got, int | float) and not isinstance(got, bool)
        if not is_number or not (least is None or got >= least) or not (most is None or got <= most):
            self.fail(what, " and ".join(bounds), repr(got))

    def compared(self) -> None:
        """Called for every expectation; labkit.prove counts here."""

    def fail(self, what: str, expected: str, got: str) -> NoReturn:
        """Say so, with the state as it was and as it is."""
        after = self._draw()
        raise LabFailure(what, expected, got, self.before, after if after != self.before else "")


def same(got: Any, expected: Any) -> bool:
    """Whether they are equal, by a comparison of Python's or of what is expected: a learner's class has no say."""
    kind = type(got)
    if not isinstance(kind.__eq__, WrapperDescriptorType) and kind.__eq__ is not type(expected).__eq__:
        return False
    if got != expected or (kind is bool) != (type(expected) is bool):
        return False
    if kind in (list, tuple) and kind is type(expected):
        return len(got) == len(expected) and all(map(same, got, expected))
    if kind is dict and type(expected) is dict:
        return all(key in expected and same(value, expected[key]) for key, value in got.items())
    return True


def where_they_differ(expected: Any, got: Any) -> tuple[str, str]:
    """Both as text: of dictionaries the entries that differ, of long sequences what follows the first such entry."""
    kinds = {type(expected), type(got)}
    if kinds == {dict}:
        one, other = expected, got
        expected = {key: one[key] for key in one if key not in other or other[key] != one[key]}
        got = {key: other[key] for key in other if key not in one or other[key] != one[key]}
        if not expected and not got:  # the types differ
            expected, got = one, other
    elif kinds <= {list, tuple} and max(len(expected), len(got)) > MOST_SHOWN:
        pairs = enumerate(zip(expected, got, strict=False))
        first = next((i for i, pair in pairs if not same(*pair)), min(len(expected), len(got)))
        where = f"{{}} entries, from number {first} on {{}}"
        return tuple(where.format(len(each), list(each[first : first + MOST_SHOWN])) for each in (expected, got))  # type: ignore[return-value]
    return repr(expected), repr(got)


def check(draw: Callable[..., str] | None = None, *drawn: Any) -> Check:
    """Begin to look: draw(*drawn) draws the state, now for "before", and again when an expectation fails."""
    return Check(draw, *drawn)


@contextmanager
def raises(error: type[BaseException] | tuple[type[BaseException], ...], what: str) -> Iterator[None]:
    """The block must raise `error`; what: the sentence that says why."""
    try:
        yield
    except error:
        Check(None).compared()
        return
    names = " or ".join(each.__name__ for each in (error if isinstance(error, tuple) else (error,)))
    raise LabFailure(what, f"{names} is raised", "nothing is raised")


def expand(test: Callable[..., Any]) -> Iterable[tuple[str, dict[str, Any]]]:
    """The runs of a test: (suffix of its id, arguments besides `lab`)."""
    named = getattr(test, "lab_cases", None)
    if named is None:
        return [("", {})]
    return [(f"[{name}]", {"case": value}) for name, value in named.items()]
