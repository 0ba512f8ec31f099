"""What a red walk shows can be typed into Python, and fails there in the same way."""

import ast
import random
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from labkit.grade import runner
from labkit.grade.messages import typed
from labkit.grade.replay import Replay
from labkit.grade.runner import Result, read_tests, run_lab
from labkit.labs.catalog import Lab, LabkitError, find_lab, labs
from labkit.labs.implementations import seeded_bugs
from labkit.testing.search import Call, LabFailure
from labkit.testing.worlds import Options


class Planned(Exception):
    """What a test walks by."""


def plan_of(test: runner.Test) -> Callable[[random.Random], list[Call]] | None:
    """What plans a test's walks, if it has some."""

    def catch(_: object, plan: object, *__: object, **___: object) -> None:
        raise Planned(plan)

    names = test.function.__globals__
    if "walk" not in names:
        return None
    names["walk"] = catch
    try:
        test.function(None, **test.arguments)
    except Planned as planned:
        found: Callable[[random.Random], list[Call]] = planned.args[0]
        return found
    except Exception:
        return None
    return None


def walks(lab: Lab) -> dict[str, Callable[[random.Random], list[Call]]]:
    return {test.name: plan for test in read_tests(lab) if test.concept.searches and (plan := plan_of(test))}


WALKING = [lab.id for lab in labs() if any("walk(lab" in file.read_text() for file in lab.folder.glob("test_*.py"))]


def block_of(result: Result) -> list[str]:
    """The lines that are shown as the calls; the first of them makes `it`."""
    lines = result.message.splitlines()
    start = lines.index("  the calls") + 1
    end = next(number for number in range(start, len(lines)) if not lines[number].startswith("    "))
    return [line[4:] for line in lines[start:end]]


def test_the_labs_walk() -> None:
    assert {"01.6", "02.1", "03.2", "03.10", "04.1", "04.2", "05.5"} <= set(WALKING)
    assert all(walks(find_lab(lab_id)) for lab_id in WALKING)


@pytest.mark.parametrize("lab_id", WALKING)
def test_every_call_of_every_walk_is_python(lab_id: str) -> None:
    """Typed, it is the call that was planned, with its types."""
    typing = Recorder()
    for name, plan in walks(find_lab(lab_id)).items():
        for seed in range(5):
            calls, typing.calls = list(plan(random.Random(seed))), []
            _, *lines = typed(lab_id, name, calls)
            exec("\n".join(lines), {"it": typing})
            assert repr(typing.calls) == repr(calls)
            assert typing.calls == calls


class Recorder:
    """In the place of a Replay: keeps what is typed."""

    calls: list[Call]

    def __getattr__(self, name: str) -> Callable[..., None]:
        def call(*arguments: Any, **options: Any) -> None:
            self.calls.append((name, *arguments, *([Options(options)] if options else [])))

        return call


QUICK = ("04.1", "05.5")


@pytest.mark.parametrize("lab_id", [pytest.param(i, marks=() if i in QUICK else pytest.mark.slow) for i in WALKING])
def test_the_calls_that_are_shown_fail_again(lab_id: str) -> None:
    """For some bugs of the lab, that its walks find: the last call raises what the message says, and none before it."""
    lab, num_found = find_lab(lab_id), 0
    bugs = seeded_bugs(lab)
    tests = [test for test in read_tests(lab) if test.name in walks(lab)]
    for name in islice(random.Random(1).sample(sorted(bugs), len(bugs)), 20):
        for result in filter(lambda each: "  the calls" in each.message, run_lab(lab, [bugs[name].part], tests)):
            first, *lines = block_of(result)
            assert first == f'from labkit.grade.replay import Replay; it = Replay("{lab_id}", "{result.test}")', name
            calls = ast.parse("\n".join(lines)).body
            names = {"it": Replay(lab_id, result.test, bugs[name].part.file)}
            *before, last = [compile(ast.Interactive([call]), "typed", "single") for call in calls]
            for call in before:
                exec(call, names)
            with pytest.raises(LabFailure) as failure:
                exec(last, names)
            said = str(failure.value)
            assert failure.value.what in result.message, (name, said)
            got, message = (" ".join(text.split()) for text in (failure.value.got, result.message))
            assert got[:60] in message or got[-60:] in message, (name, said)
            num_found += 1
        if num_found >= 3:
            return
    assert num_found, "no walk of the lab is red"


def test_what_cannot_be_replayed_is_refused() -> None:
    with pytest.raises(LabkitError, match=r"Lab 05\.5 has no test 'test_it'"):
        Replay("05.5", "test_it")
    with pytest.raises(LabkitError, match=r"test_tries does not walk"):
        Replay("05.5", "test_tries")
