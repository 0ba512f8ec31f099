"""Tests that look for a failure among many cases at random, and show the smallest that they find.

    def plan(rng):                      a case: calls, each a tuple of a name and plain values
        return [("append", rng.randint(0, 3)) for _ in range(rng.randint(1, 12))]

    def play(lab, calls):               does them, and says after each what may be seen from outside
        queue = ...
        for name, *arguments in calls:
            ...
            yield "I1", "the blocks", queue.block_ids()

    @concept("After any calls the queue is in the order that they made.", invariant="I1", searches=True)
    def test_any_calls(lab):
        walk(lab, plan, play)

walk() plays the same calls on the reference and on the graded parts; both must show the same. Of the calls of a walk
that fails those are left out without which it fails, too. search() judges cases, small ones first. The cases are the
same in every run: the seed of the n-th is n.
"""

import gc
import os
import random
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import isfinite
from typing import Any, TypeVar

from labkit.testing.words import Check, LabFailure, LabTodo, same, where_they_differ

Case = TypeVar("Case")
Call = tuple[Any, ...]
Seen = tuple[Any, ...]
"""The invariant at stake, what is looked at, its value and, if it helps, a drawing or what makes one; or two of them:
before and after."""
Plan = Callable[[random.Random], Sequence[Call]]
Play = Callable[[Any, Sequence[Call]], Generator[Seen, None, None]]

MAX_TRIES = 300  # plays of shorter walks, in search of the shortest
MAX_SECONDS = 1.0
_share = 1.0


@contextmanager
def effort(share: float) -> Iterator[None]:
    """How many of the cases are tried: 1.0 is all of them, which a grade wants; `lab watch` is content with less."""
    global _share
    before, _share = _share, share
    try:
        yield
    finally:
        _share = before


def seeds(num: int) -> range:
    """The seeds of the cases to try."""
    return range(max(1, round(num * _share)))


def some(cases: Sequence[Case], least: int = 1) -> Sequence[Case]:
    """A part of a list of cases, spread over all of it: all for a grade, at least `least` for `lab watch`."""
    count = min(len(cases), max(least, round(len(cases) * _share)))
    return [cases[i * len(cases) // count] for i in range(count)]


def scaled(size: int, least: int = 1) -> int:
    """A size: the whole of it for a grade, less for `lab watch`, but at least `least`."""
    return min(size, max(least, round(size * _share)))


def far(size: int, most: int | None = None) -> int:
    """A size beyond any that an answer may have been made for: `size`, and at night any from there to `most`.

    A bound of an answer that is just above the sizes of the tests is then found one night, and no day gets longer.
    most: twice the size, if it is not given.
    """
    largest = 2 * size if most is None else most
    return random.SystemRandom().randint(size, largest) if os.environ.get("NIGHTLY") else size


def processor_seconds(work: Callable[[], object]) -> float:
    """The processor's time that work() takes, without the garbage collector's: that grows with all a process holds.

    To count calls or lines would say the same on every machine, but not see what a list or a dictionary does in C. So
    compare the least of several times, at several sizes, and leave a wide margin: other programs may run meanwhile.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        start = time.process_time()
        work()
        return time.process_time() - start
    finally:
        if was_on:
            gc.enable()


def attempt(error: type[Exception], call: Callable[..., Any], *arguments: Any) -> Any:
    """What call(*arguments) returns, or the name of `error` if that is raised."""
    try:
        return call(*arguments)
    except error:
        return error.__name__


def search(
    lab: Any, plan: Callable[[random.Random, int], Any], judge: Callable[[Any, Any], object], num: int = 60
) -> None:
    """Judge `num` cases. plan(rng, size) makes one of size 0, 1, ..., so that the first one that fails is small.

    judge(lab, case): raises LabFailure, by check(), for a case that does not hold.
    """
    Check(None).compared()
    for seed in seeds(num):
        judge(lab, plan(random.Random(seed), seed))


def walk(lab: Any, plan: Plan, play: Play, num: int = 60) -> None:
    """Play `num` walks on the reference and on the graded parts. Raises LabFailure for one that differs, cut short.

    play(lab, calls): must make sense of any part of the calls, in their order, since walks are cut short. The first
    call is never left out: it may say what the other calls are about.
    """
    Check(None).compared()
    for seed in seeds(num):
        calls = list(plan(random.Random(seed)))
        failure = differs(lab, play, calls)
        if failure is not None:
            failure = shortest(lab, play, calls[: failure.num_calls], failure)
            failure.again = partial(differs, lab, play, failure.walked)
            raise failure


class Difference(LabFailure):
    """A walk that shows something else than the reference's. num_calls: how many calls it takes to see it."""

    again: Callable[[], "Difference | None"]  # plays the same calls again, on what is grafted then

    def __init__(
        self,
        calls: Sequence[Call],
        invariant: str,
        what: str,
        expected: str,
        got: str,
        drawn: Sequence[str | Callable[[], str]] = (),
    ) -> None:
        self.walked, self.num_calls = list(calls), len(calls)
        written = "\n".join(write(call) for call in calls)
        before, after = (each() if callable(each) else each for each in (*drawn, "", "")[:2])
        after = after if after != before else ""
        super().__init__(what, expected, got, before, after, calls=written, invariant=invariant)


def write(call: Call) -> str:
    """A call as a learner would write it."""
    name, *arguments = call
    return f"{name}({', '.join(map(literal, arguments))})"


def literal(value: object) -> str:
    """What Python reads as this value: the repr of an infinity is a name."""
    if type(value) is list:
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    return repr(value)


def differs(lab: Any, play: Play, calls: Sequence[Call]) -> Difference | None:
    """Where the graded parts first show something else than the reference; None if they never do."""
    with lab.reference() as reference:
        expected = list(play(reference, calls))
    position, drawn = 0, ""
    told = iter(Told(calls))
    try:
        for position, (law, what, value, *drawings) in enumerate(play(lab, told)):  # type: ignore[arg-type]
            if len(drawings) == 2:
                drawn, now = drawings
            else:
                now = drawings[0] if drawings else ""
            theirs = expected[position][2] if position < len(expected) else None
            if position >= len(expected) or not same(value, theirs) or type(value) is not type(theirs):
                wanted, got = where_they_differ(theirs, value)
                wanted = wanted if position < len(expected) else "nothing"
                return Difference(calls[: told.number], law, what, wanted, got, [drawn, now])
            drawn = now
    except (LabTodo, LabFailure):
        raise
    except Exception as error:
        if told.number == 0:
            raise
        name = write(calls[told.number - 1])
        got = f"{type(error).__name__}: {error}"
        difference = Difference(calls[: told.number], "", name, "no error", got, [drawn])
        difference.__cause__ = error
        return difference
    if len(expected) > position + bool(expected):
        law, what, value = expected[position + 1][:3]
        return Difference(calls, law, what, repr(value), "nothing")
    return None


class Told:
    """The calls, and how many of them have been asked for."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self.number = 0

    def __iter__(self) -> "Told":
        return self

    def __next__(self) -> Call:
        if self.number == len(self._calls):
            raise StopIteration
        self.number += 1
        return self._calls[self.number - 1]


def shortest(lab: Any, play: Play, calls: Sequence[Call], failure: Difference) -> Difference:
    """The failure of the shortest walk that leaving out calls, and then arguments by name, leads to.

    It takes MAX_SECONDS of the processor at most, so that a slow machine shows a longer walk, and not one that did not
    come back. What else the machine does changes nothing.
    """
    calls, size, tries = list(calls), max(1, len(calls) // 2), 0
    end = time.process_time() + MAX_SECONDS
    while size:
        start, left_out = len(calls) - size, False
        while start >= 1 and tries < MAX_TRIES and time.process_time() < end:
            tries += 1
            shorter = calls[:start] + calls[start + size :]
            again = differs(lab, play, shorter)
            if again is not None:
                calls, failure, left_out = shorter[: again.num_calls], again, True
            start = min(start - size, len(calls) - size)
        if not left_out or size > 1:
            size = size // 2 if size > 1 else 0
    names = {name for call in calls[1:] if isinstance(call[-1], dict) for name in call[-1]}
    for name in sorted(names):
        for which in (range(1, len(calls)), *([i] for i in range(len(calls) - 1, 0, -1))):
            simpler = [without(call, name) if i in which else call for i, call in enumerate(calls)]
            if simpler == calls or time.process_time() > end:
                continue
            again = differs(lab, play, simpler)
            if again is not None and again.num_calls == len(calls):
                calls, failure = simpler, again
    return failure


def without(call: Call, name: str) -> Call:
    """The call less one of the arguments in the dictionary at its end."""
    *arguments, options = call
    if not isinstance(options, dict) or name not in options:
        return call
    rest = type(options)({key: value for key, value in options.items() if key != name})
    return (*arguments, rest) if rest else tuple(arguments)
