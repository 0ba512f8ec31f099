"""Types a walk again: what a red test of random calls shows can be called in Python, and fails there, too.

    from labkit.grade.replay import Replay; it = Replay("05.5", "test_any_request")
    it.Pace(4)
    it.next_length(); it.learn(1, 1)

Each call is added to those before it, and all are played on the learner's file and on the reference. A difference is
raised as the test found it, with what the learner's code raised as its cause, for a debugger.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from labkit.grade.runner import Test, namespace_of, prepare, read_tests
from labkit.labs.catalog import LabkitError, find_lab
from labkit.labs.graft import Part, grafted
from labkit.labs.together import with_company
from labkit.testing.search import Call, Play, differs
from labkit.testing.worlds import Options
from mini_vllm.errors import shown


class Replay:
    """A walk that is typed call by call. Errors: LabkitError for a test that walks nowhere; LabFailure, as a test."""

    def __init__(self, lab_id: str, test: str, file: Path | None = None) -> None:
        """test: as it is named where it is red. file: the learner's mine.py if none is named."""
        lab = find_lab(lab_id)
        prepare(lab)
        found = [each for each in read_tests(lab) if each.name == test]
        if not found:
            raise LabkitError(f"Lab {lab_id} has no test {shown(test)}.")
        self._play = play_of(found[0])
        self._part = Part(lab, lab.mine if file is None else file)
        self._calls: list[Call] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("__"):
            raise AttributeError(name)
        return partial(self._call, name)

    def _call(self, name: str, *arguments: Any, **options: Any) -> None:
        self._calls.append((name, *arguments, *([Options(options)] if options else [])))
        with grafted(with_company([self._part])):
            difference = differs(namespace_of(self._part.lab, self._part), self._play, self._calls)
        if difference is not None:
            raise difference


class Caught(Exception):
    """What a test walks with, in place of a walk."""

    def __init__(self, play: Play) -> None:
        super().__init__()
        self.play = play


def play_of(test: Test) -> Play:
    """What a test plays its calls by. Errors: LabkitError for one that does not walk."""

    def catch(_: Any, plan: object, play: Play, num: int = 0) -> NoReturn:
        raise Caught(play)

    names = test.function.__globals__  # of a module that was loaded for this reading of the tests
    if "walk" in names:
        names["walk"] = catch
        try:
            test.function(None, **test.arguments)
        except Caught as caught:
            return caught.play
        except Exception as error:
            raise LabkitError(f"{test.name} does not walk: {type(error).__name__}: {error}") from None
    raise LabkitError(f"{test.name} does not walk.")
