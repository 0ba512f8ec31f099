"""What is found out about a red test by running it again: which call of the learner's failed, and who is to blame."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from labkit.compare.behaviour import around, wrapped
from labkit.grade.messages import clip, find_todo
from labkit.grade.watchdog import LabHang, watchdog
from labkit.labs.catalog import C_COMPILER, LabkitError, Slot
from labkit.labs.graft import Part, reference_of
from labkit.labs.together import who_is_to_blame
from labkit.testing.words import LabFailure

SECONDS = 1.5  # for all that is run again
WIDTH = 60  # of what a call returned


@contextmanager
def telling_more(parts: Sequence[Part], part: Part | None, run: Callable[[], object], names: Any) -> Iterator[None]:
    """The block runs a test; an error of it tells more. parts: what is grafted; part: the graded one; names: `lab`."""
    try:
        yield
    except LabkitError:
        raise
    except Exception as error:
        if part and not find_todo(error):
            with suppress(LabHang), watchdog(SECONDS):
                add_notes(error, parts, part, getattr(error, "again", run), names)  # a walk is shorter than its test
        raise


def add_notes(error: Exception, parts: Sequence[Part], part: Part, again: Callable[[], object], names: Any) -> None:
    """The call that failed, and of parts that are graded together those that are to blame."""
    has_crashed = not isinstance(error, LabFailure) or (hasattr(error, "again") and error.__cause__)
    if has_crashed and part.lab.slots and not {"triton", C_COMPILER} & set(part.lab.needs):
        error.call = LastCall().of(parts, again, names)  # type: ignore[attr-defined]
    if part.lab.together and (note := who_is_to_blame(part, again)):
        error.add_note(note)


class LastCall:
    """The last call from outside into what a learner wrote, and what it returned."""

    def __init__(self) -> None:
        self._said, self._depth = "", 0

    def of(self, parts: Sequence[Part], again: Callable[[], object], names: Any) -> str:
        """In a test that fails: "schedule() returned None"; "schedule()" if it did not return."""
        with wrapped(parts, self._following, names), suppress(Exception):
            again()
        return self._said

    def _following(self, function: Any, part: Part, slot: Slot) -> Any:
        """A function of a part, which notes its calls."""
        name = getattr(function, "__func__", function).__name__
        reference = reference_of(slot)
        if isinstance(reference, type):
            reference = getattr(reference, name, None)
        annotation = inspect.signature(reference).return_annotation if callable(reference) else None
        name = slot.name if name == "__init__" else name

        def call(plain: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
            if not self._depth:
                self._said = f"{name}()"
            self._depth += 1
            try:
                returned = plain(*arguments, **named)
            finally:
                self._depth -= 1
            if not self._depth and annotation not in (None, "None"):
                with suppress(Exception):
                    self._said = f"{name}() returned {clip(repr(returned), WIDTH)}"
            return returned

        return around(function, call)
