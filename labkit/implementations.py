"""Whose code is graded: the learner's file, the reference, the stub, a seeded bug or another correct way."""

import shutil
from pathlib import Path
from typing import Any

from labkit import source
from labkit.catalog import ROOT, Lab, LabkitError
from labkit.graft import Part, load
from mini_vllm.observe.files import write_file

EDITED = ROOT / ".lab" / "edited"
KINDS = {"bug": "bugs", "variant": "variants"}


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
    """Whether a release brought another stub since."""
    return lab.base.exists() and source.read(lab.base) != source.render_stub(lab)


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
    file = lab.proof / KINDS.get(kind, "") / f"{name}.py"
    if kind not in KINDS or not file.exists():
        raise LabkitError(f"--impl={impl}: there is no {file.name} for lab {lab.id}.")
    return proof_part(lab, file)


def proof_text(lab: Lab, file: Path) -> str:
    """A seeded bug or a variant: EDITS of the solution, or of the variant that BASE names, or slots written out.

    EDITS is a list of (old, new); each old text must occur exactly once. Errors: LabkitError.
    """
    written = file.read_text(encoding="utf-8")
    if "EDITS" not in written:
        return written
    names = vars(load(file))
    base = lab.proof / "variants" / f"{names['BASE']}.py" if "BASE" in names else None
    text = base.read_text(encoding="utf-8") if base else source.render_solution(lab)
    for old, new in names["EDITS"]:
        if text.count(old) != 1:
            raise LabkitError(f"{file}: what it edits has {text.count(old)} times {old!r}, not once")
        text = text.replace(old, new)
    return text


def proof_part(lab: Lab, file: Path) -> Part:
    """A seeded bug or a variant, to graft. Errors: LabkitError."""
    text = proof_text(lab, file)
    if text == file.read_text(encoding="utf-8"):
        return Part(lab, file, is_learners=False)
    edited = EDITED / lab.id / file.name  # a file, since a message shows lines of it
    edited.parent.mkdir(parents=True, exist_ok=True)
    edited.write_text(text, encoding="utf-8")
    return Part(lab, edited, is_learners=False)


def story_of(file: Path) -> dict[str, Any]:
    """STORY and CONCEPT of a seeded bug."""
    names = vars(load(file))
    return {"story": names.get("STORY", ""), "concept": names.get("CONCEPT", "")}
