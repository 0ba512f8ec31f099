"""A lab that grades what a learner built as one engine: it brings the learner's parts of other labs along.

labs.toml names them (together = [...]). A part is in if its file is there, complete and can be loaded; of each that is
left out the reason is said. A slot that two labs define is the later lab's: while that is not written, the reference's.
Parts that are no learner's, those of proof/, come alone.
"""

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from labkit.grade.messages import clip, find_todo, learners_line
from labkit.labs.catalog import Lab, LabkitError, Slot, find_lab
from labkit.labs.graft import Part, grafted, ungrafted
from labkit.testing.words import Check, LabFailure, LabTodo

SECONDS = 1.5  # for the learner's own tests of one lab; they are not begun after that

Reasons = dict[str, str]  # why a lab's part is left out, by lab id


def root_of(part: Part) -> Path:
    """The checkout that a part lies in, which need not be this one."""
    return part.file.parents[len(Path(part.lab.typed).parts) - 1]


def company_of(part: Part) -> tuple[list[Part], Reasons]:
    """The learner's other parts that are graded with this one, and why some are not."""
    parts: list[Part] = []
    left_out: Reasons = {}
    later = set(part.lab.slots)
    for lab in map(find_lab, reversed(part.lab.together if part.is_learners else ())):
        other = load_part(lab, root_of(part), frozenset(later))
        if isinstance(other, Part):
            parts.insert(0, other)
        elif not later.issuperset(lab.slots):
            left_out[lab.id] = other
        later |= set(lab.slots)
    return parts, dict(sorted(left_out.items()))


def load_part(lab: Lab, root: Path, later: frozenset[Slot] = frozenset()) -> Part | str:
    """The learner's part of a lab in a checkout, or why it is left out. later: slots that are not taken from it."""
    file = root / lab.typed
    if not file.is_file():
        return "not begun"
    found = read_part(lab, file, file.stat().st_mtime_ns, later)
    return "not written yet" if isinstance(found, Part) and found.unwritten else found


@lru_cache(maxsize=64)
def read_part(lab: Lab, file: Path, modified: int, later: frozenset[Slot]) -> Part | str:
    """Loaded once for each time that the file is saved."""
    try:
        part = Part(lab, file)
    except LabkitError as error:
        return clip(str(error).splitlines()[0])
    part.leave(later)
    return part


def with_company(parts: Sequence[Part]) -> list[Part]:
    """These parts, each behind those that are graded with it. Of two with the same slot the later one counts."""
    brought = {lab_id for part in parts if part.is_learners for lab_id in part.lab.together}
    return [each for part in parts if part.lab.id not in brought for each in (*company_of(part)[0], part)]


def account(part: Part | None) -> str:
    """Which parts are in, and which are left out: a line for a lab that brings other labs along, else ""."""
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


def who_is_to_blame(part: Part, again: Callable[[], object]) -> str:
    """What to say of the learner's parts when a test is red: which must go for it to be green, and which are missing.

    again: runs the test again on what is grafted then; raises, or returns an error, if it fails.
    """
    company, left_out = company_of(part)
    parts, said = [*company, part], []
    if company:
        alone = [part.lab.id for part in parts if is_green([each for each in parts if each is not part], again)]
        if alone:
            said.append(f"with the reference's in place of yours of {' or '.join(alone)} this is green")
        else:
            said.append("no single part of yours is to blame: this is red whichever of them is the reference's")
    said += [f"{reason}: {', '.join(ids)}" for reason, ids in by_reason(left_out).items()]
    return "; ".join(said)


def why_it_stopped(error: Exception, parts: Sequence[Part], again: Callable[[], object]) -> str:
    """What stopped an engine that runs on these parts, the learner's line on the way, and which part must go.

    again: runs the engine once more on what is grafted then; raises if it stops.
    """
    said = [f"The engine stopped: {type(error).__name__}: {clip(str(error))}"]
    said += [f"  {part.lab.id}, {line}" for part in parts if (line := learners_line(error, part.file))]
    blamed = [part.lab.id for part in parts if is_green([each for each in parts if each is not part], again)]
    if blamed:
        said.append(f"With the reference's in place of yours of {' or '.join(blamed)} it runs to its end.")
    elif is_green([], again):
        said.append("No single part of yours is to blame: it stops whichever of them is the reference's.")
    else:
        said.append("It stops on the reference alone, too: none of yours is to blame.")
    return "\n".join(said)


def is_green(parts: Sequence[Part], again: Callable[[], object]) -> bool:
    """Whether nothing goes wrong on these parts alone."""
    with ungrafted(), grafted(parts):
        try:
            return not isinstance(again(), Exception)
        except Exception:
            return False


class Yours:
    """What a test of such a lab has besides the engine: lab.yours. part: the graded file, None for the reference."""

    def __init__(self, part: Part | None, names: Callable[[Lab], Any]) -> None:
        """names: makes what the tests of a lab take, on what is grafted."""
        self._part, self._names = part, names

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
