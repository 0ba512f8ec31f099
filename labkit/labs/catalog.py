"""What labs there are: read from labs.toml of every phase.

Invariant: ids are stable and never reused; the order of the labs is their order in the file.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from mini_vllm.errors import shown

ROOT = Path(__file__).resolve().parents[2]
VLLM = "0.33.0"  # the release whose symbols the labs cite
TRACES = ROOT / "traces" / f"vllm-{VLLM}"  # what was recorded from it
C_COMPILER = "cc"  # among what a lab needs
SYMBOLS = TRACES / "symbols.json"  # module, symbol, line; by tools/index_vllm.py
DEFAULTS = TRACES / "defaults.json"  # what runs by default; by tools/index_vllm.py


class LabkitError(Exception):
    """Something that a person must put right; its text says what and where, in two or three lines."""


@dataclass(frozen=True)
class Slot:
    """A name in the reference that the learner writes: a function, a class, or a method of a class."""

    module: str
    qualname: str

    @classmethod
    def parse(cls, text: str) -> "Slot":
        module, _, qualname = text.partition(":")
        return cls(module, qualname)

    @property
    def owner(self) -> str:
        """The class of a method, "" for what stands in a module."""
        return self.qualname.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.qualname.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.module}:{self.qualname}"


@dataclass(frozen=True)
class Lab:
    """One lab. answer: what belongs to the reference's answer besides the slots, and may not be called by a learner.

    A break-it lab has no slots: the learner writes tests, which are run on the versions of the engine in `versions`. If
    it has cases, its folder has evidence of each, from an engine with a bug, and the learner also names the culprit.
    """

    id: str
    title: str
    folder: Path
    slots: tuple[Slot, ...]
    answer: tuple[Slot, ...]
    minutes: int
    concepts: tuple[str, ...]
    vllm: tuple[str, ...]
    chapter: str
    needs: tuple[str, ...] = ()
    modules: tuple[str, ...] = field(default=())  # whose public names the tests see
    cases: tuple[str, ...] = ()  # of a lab of debugging
    together: tuple[str, ...] = ()  # labs whose learner's parts are grafted with this one's, before it

    @property
    def root(self) -> Path:
        """The checkout that the lab belongs to."""
        return self.folder.parents[2]

    @property
    def mine(self) -> Path:
        """The learner's file."""
        return self.folder / "mine.py"

    @property
    def typed(self) -> str:
        """The path of the learner's file as a person types it, from the checkout."""
        return self.mine.relative_to(self.root).as_posix()

    @property
    def stub(self) -> Path:
        return self.folder / "stub.py"

    @property
    def base(self) -> Path:
        """A copy of the stub that mine.py was made from, or last updated to."""
        return self.root / ".lab" / "stubs" / f"{self.id}.py"

    @property
    def proof(self) -> Path:
        return ROOT / "proof" / self.id

    @property
    def packages(self) -> tuple[str, ...]:
        """What it needs of Python; what else it needs is a C compiler."""
        return tuple(need for need in self.needs if need != C_COMPILER)

    @property
    def is_break_it(self) -> bool:
        return not self.slots

    @property
    def versions(self) -> Path:
        return self.folder / "versions.txt"

    @property
    def solution(self) -> Path:
        """The tests that a break-it lab's answer is."""
        return self.proof / "solution.py"

    @cached_property
    def invariants(self) -> dict[str, str]:
        """The laws of contract.md: list items that begin with an id, as in "- **I2** no request gets more than ..."."""
        found = {}
        text = (self.folder / "contract.md").read_text(encoding="utf-8")
        for item in f"\n{text}".split("\n- **I")[1:]:
            number, _, law = item.partition("**")
            found["I" + number] = " ".join(law.partition("\n\n")[0].split())
        return found


@dataclass(frozen=True)
class Phase:
    """A folder phase-NN-name and its labs."""

    id: str
    title: str
    folder: Path
    labs: tuple[Lab, ...]


@cache
def phases(root: Path = ROOT, number: str = "*") -> tuple[Phase, ...]:
    """All phases that have labs, or that of a number, in order; read once."""
    return tuple(read_phase(file) for file in sorted(root.glob(f"phase-{number}-*/labs/labs.toml")))


def labs(root: Path = ROOT) -> Iterator[Lab]:
    for phase in phases(root):
        yield from phase.labs


def find_lab(lab_id: str, root: Path = ROOT) -> Lab:
    """The lab of that id. Errors: LabkitError that lists the ids there are."""
    number = lab_id.partition(".")[0]
    for phase in phases(root, number) if number.isdigit() else ():  # what other phases have is none of its business
        for lab in phase.labs:
            if lab.id == lab_id:
                return lab
    raise LabkitError(f"There is no lab {shown(lab_id)}. The labs are {', '.join(lab.id for lab in labs(root))}.")


def lab_of(path: Path, root: Path = ROOT) -> Lab | None:
    """The lab that a file belongs to."""
    return next((lab for lab in labs(root) if lab.folder in path.parents), None)


def read_phase(file: Path) -> Phase:
    """One labs.toml. Errors: LabkitError naming the file and the key that is missing."""
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    try:
        found = [
            Lab(
                id=entry["id"],
                title=entry["title"],
                folder=file.parent / entry["folder"],
                slots=tuple(Slot.parse(text) for text in entry.get("slots", ())),
                answer=tuple(Slot.parse(text) for text in entry.get("answer", ())),
                minutes=entry["minutes"],
                concepts=tuple(entry["concepts"]),
                vllm=tuple(entry["vllm"]),
                chapter=entry["chapter"],
                needs=tuple(entry.get("needs", ())),
                modules=tuple(entry.get("modules", data["modules"])),
                cases=tuple(entry.get("cases", ())),
                together=tuple(entry.get("together", ())),
            )
            for entry in data["lab"]
        ]
        return Phase(data["id"], data["title"], file.parent.parent, tuple(found))
    except KeyError as missing:
        raise LabkitError(f"{file}: an entry lacks {missing}") from missing
