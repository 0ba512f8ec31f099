"""A lab that grades what a learner built as one engine: it brings the learner's parts of other labs along.

labs.toml names them (together = [...]). A part is in if its file is there, complete and can be loaded; of each that is
left out the reason is said. Parts that are no learner's, those of proof/, come alone.
"""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from labkit.catalog import Lab, LabkitError, find_lab
from labkit.graft import Part, grafted, ungrafted
from labkit.messages import clip, find_todo, learners_line
from labkit.testing import Check, LabFailure, LabTodo

SECONDS = 1.5  # for the learner's own tests of one lab; they are not begun after that

Reasons = dict[str, str]  # why a lab's part is left out, by lab id


def root_of(part: Part) -> Path:
    """The checkout that a part lies in, which need not be this one."""
    return part.file.parents[len(Path(part.lab.typed).parts) - 1]


def company_of(part: Part) -> tuple[list[Part], Reasons]:
    """The learner's other parts that are graded with this one, and why some are not."""
    parts, left_out = [], {}
    for lab_id in part.lab.together if part.is_learners else ():
        other = load_part(find_lab(lab_id), root_of(part))
        if isinstance(other, Part):
            parts.append(other)
        else:
            left_out[lab_id] = other
    return parts, left_out


def load_part(lab: Lab, root: Path) -> Part | str:
    """The learner's part of a lab in a checkout, or why it is left out."""
    file = root / lab.typed
    if not file.is_file():
        return "not begun"
    found = read_part(lab, file, file.stat().st_mtime_ns)
    return "not written yet" if isinstance(found, Part) and found.unwritten else found


@lru_cache(maxsize=64)
def read_part(lab: Lab, file: Path, modified: int) -> Part | str:
    """Loaded once for each time that the file is saved."""
    try:
        return Part(lab, file)
    except LabkitError as error:
        return clip(str(error).splitlines()[0])


def with_company(parts: Sequence[Part]) -> list[Part]:
    """These parts, each behind those that are graded with it. Of two with the same slot the later one counts."""
    return [each for part in parts for each in (*company_of(part)[0], part)]


def account(part: Part | None) -> str:
    """Which parts are in, and which are left out: a line for a lab that brings others along, else ""."""
    if part is None or not part.lab.together:
        return ""
    parts, left_out = company_of(part)
    said = f"yours in it: {', '.join(each.lab.id for each in (*parts, part))}"
    reasons = [f"{reason}: {', '.join(ids)}" for reason, ids in by_reason(left_out).items()]
    return f"{said}; the reference's, since {'; '.join(reasons)}" if reasons else said


def by_reason(left_out: Reasons) -> dict[str, list[str]]:
    """The lab ids by what is said of them."""
    found: dict[str, list[str]] = {}
    for lab_id, reason in left_out.items():
        found.setdefault(reason, []).append(lab_id)
    return found


class Yours:
    """What a test of such a lab has besides the engine: lab.yours. part: the graded file, None for the reference."""

    def __init__(self, part: Part | None, names: Callable[[Lab], Any]) -> None:
        """names: makes what the tests of a lab take, on what is grafted."""
        self._part, self._names = part, names

    def blame(self, run: Callable[[], object]) -> None:
        """Run a test. What it raises says too which of the learner's parts it is that must go for it to be green."""
        try:
            run()
        except (LabTodo, LabkitError):
            raise
        except Exception as error:
            if note := self._culprit(getattr(error, "again", run)):
                error.add_note(note)
            raise

    def _culprit(self, again: Callable[[], object]) -> str:
        """What to say of the parts. again: raises, or returns an error, if it fails."""
        if self._part is None:
            return ""
        parts = with_company([self._part])
        if len(parts) == 1:
            return ""
        alone = [part.lab.id for part in parts if fails_on([each for each in parts if each is not part], again) is None]
        if alone:
            return f"with the reference's in place of yours of {' or '.join(alone)} this is green"
        return "no single part of yours is to blame: this is red whichever of them is the reference's"

    def test(self, lab_id: str) -> None:
        """Run the learner's own tests of a break-it lab on this engine; the stub's, if there are none. LabFailure."""
        Check(None).compared()
        if self._part and self._part.unwritten:
            raise LabTodo(self._part.lab.id)
        lab = find_lab(lab_id)
        found = load_part(lab, root_of(self._part)) if self._part and self._part.is_learners else "no learner's"
        part = found if isinstance(found, Part) else Part(lab, lab.stub, is_learners=False)
        start = time.process_time()
        for name, test in part.tests.items():
            if name in part.unwritten or time.process_time() - start > SECONDS:
                continue
            try:
                test(self._names(lab))
            except Exception as error:
                if find_todo(error):
                    raise
                line = learners_line(error, part.file)
                said = f"your tests of {lab_id}, on your engine: {name}\n  {line}\n  {clip(str(error))}"
                raise LabFailure(said, "green", "red") from error


def fails_on(parts: Sequence[Part], again: Callable[[], object]) -> object:
    """What goes wrong on these parts alone; None if nothing does."""
    with ungrafted(), grafted(parts):
        try:
            found = again()
        except Exception as error:
            return error
        return found if isinstance(found, Exception) else None
