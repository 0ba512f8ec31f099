"""Whose code is graded: the learner's file, the reference, the stub, a seeded bug or another correct way.

The seeded bugs of a lab are entries of proof/<lab>/bugs.toml:

    [frees_twice]
    story = "what is wrong, and why a learner might write it"
    test = "test_..."       of the lab, whose idea the bug breaks
    edits = [[old, new]]    of the reference's answer; each old text must occur exactly once
    base = "two_halves"     edits of this other correct way instead
    text = "..."            or the whole answer, in place of edits

The other correct ways are in proof/<lab>/variants.py, one after the other behind a line with the name: each the whole
answer, or EDITS of the reference's. The one named
outline has no rule that a later lab adds: `lab diff` shows it where the reference has more than the lab asks for.
"""

import inspect
import re
import shutil
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from labkit.labs import source
from labkit.labs.catalog import ROOT, Lab, LabkitError, find_lab
from labkit.labs.graft import Part, load
from mini_vllm.observe.files import write_file

OUTLINE = "outline"
EDITED = ROOT / ".lab" / "edited"


def make_mine(lab: Lab) -> bool:
    """Make the learner's file from the stub if there is none; whether it was made."""
    if lab.mine.exists():
        return False
    shutil.copyfile(lab.stub, lab.mine)
    remember_stub(lab)
    return True


def remember_stub(lab: Lab) -> None:
    """mine.py has everything that this stub has: the next `lab update` begins here."""
    lab.base.parent.mkdir(parents=True, exist_ok=True)
    write_file(lab.base, source.render_stub(lab))


def stub_has_changed(lab: Lab) -> bool:
    """Whether a release brought another stub since. Other line breaks are no change."""
    return lab.base.exists() and source.meaning(source.read(lab.base)) != source.meaning(source.render_stub(lab))


def reference_parts(lab: Lab) -> list[Part]:
    """What stands for the reference's answer: nothing to graft, or the tests that a break-it lab's answer is."""
    return [Part(lab, lab.solution, is_learners=False)] if lab.is_break_it else []


def part_of(lab: Lab, impl: str) -> Part | None:
    """The file to graft; None for the reference. Errors: LabkitError."""
    if impl == "reference":
        return next(iter(reference_parts(lab)), None)
    if impl == "mine":
        make_mine(lab)
        return Part(lab, lab.mine)
    if impl == "stub":
        return Part(lab, lab.stub)
    kind, _, name = impl.partition(":")
    answers = {"bug": seeded_bugs, "variant": other_ways}[kind](lab) if kind in ("bug", "variant") else {}
    if name not in answers:
        raise LabkitError(f"--impl={impl}: there is no {kind} {name or impl} for lab {lab.id}.")
    return answers[name].part


@dataclass(frozen=True)
class Answer:
    """A seeded bug or another correct way of a lab. text or edits, and story and test, as in the module's docstring."""

    lab: Lab
    name: str
    story: str = ""
    test: str = ""
    text: str = ""
    edits: Sequence[tuple[str, str]] = ()
    base: str = ""

    @property
    def code(self) -> str:
        """The whole file. Errors: LabkitError for an edit of what is not there once."""
        if self.text:
            return self.text
        code = other_ways(self.lab)[self.base].code if self.base else source.render_solution(self.lab)
        for old, new in self.edits:
            if code.count(old) != 1:
                raise LabkitError(
                    f"proof/{self.lab.id}, {self.name}: what it edits has {code.count(old)} times {old!r}, not once"
                )
            code = code.replace(old, new)
        return code

    @property
    def part(self) -> Part:
        """The same, to graft. Errors: LabkitError."""
        file = EDITED / self.lab.id / f"{self.name}.py"  # a file, since a message shows lines of it
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, self.code)
        return Part(self.lab, file, is_learners=False)


def seeded_bugs(lab: Lab) -> dict[str, Answer]:
    """The seeded bugs of a lab by name. Errors: LabkitError for an entry with a key that is none."""
    entries = tomllib.loads((lab.proof / "bugs.toml").read_text(encoding="utf-8"))
    try:
        return {name: Answer(lab, name, **entry) for name, entry in entries.items()}
    except TypeError as error:
        raise LabkitError(f"proof/{lab.id}/bugs.toml: {error}") from None


def other_ways(lab: Lab) -> dict[str, Answer]:
    """The other correct ways of a lab by name; the story is the first paragraph of the file."""
    file = lab.proof / "variants.py"
    listed = file.read_text(encoding="utf-8") if file.exists() else ""
    sections = re.split(r"^# === (\w+)\n", listed, flags=re.M)[1:]
    found = {}
    for name, written in zip(sections[::2], sections[1::2], strict=True):
        defined = vars(load(file, written)) if "EDITS" in written else {}
        story = " ".join(inspect.cleandoc(written.split('"""')[1]).split()) if '"""' in written else ""
        text = "" if "EDITS" in defined else written.strip() + "\n"
        found[name] = Answer(lab, name, story, "", text, defined.get("EDITS", ()), defined.get("BASE", ""))
    return found


def find_answer(answers: Callable[[Lab], dict[str, Answer]], name: str) -> Answer:
    """The one that is named "03.2:outline". answers: seeded_bugs or other_ways. Errors: LabkitError."""
    lab_id, _, stem = name.partition(":")
    found = answers(find_lab(lab_id))
    if stem not in found:
        raise LabkitError(f"proof/{lab_id} has no {stem}.")
    return found[stem]
