"""Break-it labs: the learner writes the tests, and they are graded on correct and on buggy versions of the engine.

The versions lie packed in the lab's folder (versions.txt), so that nobody reads them by accident. They are made from
the seeded bugs and the other correct ways of the phase's labs, as proof/<lab>/versions.toml lists them:

    correct = ["02.1:ordered_dict", ...]
    [buggy]
    I1 = ["02.2:free_forgets", ...]        the law of the break-it lab's contract that these break

An entry may also be a table {scheduler = "warm_first", ...}: that scheduler of the family, with its options; with a bug
of some lab if it has a key bug = "03.11:never_copies". Among the correct ones that is a bug which the laws allow. Tests
get the scheduler from make_scheduler(...), to which they give the sizes.

A correct version is named correct_1, ..., a buggy one I1_1, ...: by its law, and not by what is wrong with it.
"""

import base64
import inspect
import json
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from labkit.catalog import Lab, find_lab
from labkit.graft import Part, grafted
from labkit.implementations import proof_text, story_of
from labkit.messages import clip, find_todo, learners_line
from labkit.testing import Check, LabFailure, LabTodo
from labkit.watchdog import LabHang, watchdog

SECONDS = 1.0  # for one of the learner's tests on one version
WIDTH = 120


class Version(NamedTuple):
    """One way to write the slots of one lab of the phase; or one of the family of schedulers, with or without that."""

    name: str
    lab_id: str  # "" with no text: nothing is written otherwise
    about: str  # in what it differs from the reference, for a correct one; where it does, for a buggy one
    text: str
    config: Mapping[str, Any] = {}  # which of the family of schedulers, as the config of a trace names it


# --- packed and unpacked ------------------------------------------------------------------------------------------


def versions_of(lab: Lab) -> Iterator[Version]:
    """The versions that proof/<lab>/versions.toml lists."""
    listed = tomllib.loads((lab.proof / "versions.toml").read_text(encoding="utf-8"))
    for prefix, kind, entries in [
        ("correct", "variants", listed["correct"]),
        *((law, "bugs", entries) for law, entries in listed["buggy"].items()),
    ]:
        for number, entry in enumerate(entries, start=1):
            name = f"{prefix}_{number}"
            if isinstance(entry, dict):
                yield scheduler_of_the_family(name, entry)
                continue
            other, file = find_answer(entry, kind)
            yield Version(name, other.id, about(other, file, kind), proof_text(other, file))


def find_answer(name: str, kind: str) -> tuple[Lab, Path]:
    """The lab, and the file of a bug or variant that is named "03.2:outline"."""
    lab_id, _, stem = name.partition(":")
    lab = find_lab(lab_id)
    return lab, lab.proof / kind / f"{stem}.py"


def scheduler_of_the_family(name: str, entry: Mapping[str, Any]) -> Version:
    """A version of a table in versions.toml."""
    config = {key: value for key, value in entry.items() if key != "bug"}
    options = [key if value is True else f"{key} {value}" for key, value in config.items() if key != "scheduler"]
    what = ", ".join([config["scheduler"], *options])
    if "bug" not in entry:
        return Version(name, "", what, "", config)
    lab, file = find_answer(entry["bug"], "bugs")
    mistake = "a mistake"
    if name.startswith("correct"):
        mistake = f"a mistake that is none against these laws: {story_of(file)['story']}"
    return Version(name, lab.id, f"{what}, with {mistake}", proof_text(lab, file), config)


def about(lab: Lab, file: Path, kind: str) -> str:
    if kind == "variants":
        first = inspect.cleandoc(file.read_text(encoding="utf-8").split('"""')[1])
        return " ".join(first.split())
    return "something is wrong in " + ", ".join(slot.qualname for slot in lab.slots)


def pack(versions: Iterable[Version]) -> str:
    """The text of versions.txt."""
    data = json.dumps([list(version) for version in versions]).encode()
    text = base64.b64encode(zlib.compress(data, 9)).decode()
    return "\n".join(text[i : i + WIDTH] for i in range(0, len(text), WIDTH)) + "\n"


@cache
def unpack(text: str) -> dict[str, Version]:
    """The versions of a versions.txt by name; two files may differ, by another zlib, and hold the same."""
    return {each[0]: Version(*each) for each in json.loads(zlib.decompress(base64.b64decode(text)))}


# --- grading ------------------------------------------------------------------------------------------------------


class Suite:
    """The learner's tests, and the versions to run them on. engine: makes the names that a test takes."""

    def __init__(self, lab: Lab, part: Part, engine: Callable[[], Any]) -> None:
        self._lab, self._part, self._engine = lab, part, engine
        self._versions = unpack(lab.versions.read_text(encoding="utf-8"))

    def must_be_green(self, name: str) -> None:
        """None of the learner's tests may be red on a correct version.

        Raises LabFailure that shows the one that is, LabHang for one that does not come back.
        """
        red = self._first_red(name)
        Check(None).compared()
        if red:
            test, line, text = red
            what = [self._about(name), f"{test} is red on it", f"  {line}"]
            if text and text not in line:
                what.append(f"  {text}")
            raise LabFailure("\n  ".join(what), "every test is green", "red")

    def must_be_red(self, name: str) -> None:
        """One of the learner's tests at least must be red on a buggy version. Raises LabFailure."""
        red = self._first_red(name)
        Check(None).compared()
        if not red:
            raise LabFailure(self._about(name), "one of your tests is red on it", "all are green")

    def _about(self, name: str) -> str:
        """What a learner may know of a version."""
        return f"{name.replace('_', ', version ')}: {clip(self._versions[name].about, 200)}"

    def _first_red(self, name: str) -> tuple[str, str, str] | None:
        """The first of the learner's tests that is red on a version, at which line, and why; None if all are green.

        On a buggy version, not to come back is to be red; on a correct one the hang is the test's own, and is raised.
        """
        if self._part.unwritten:
            raise LabTodo(self._lab.id)
        version = self._versions[name]
        parts = []
        if version.lab_id:
            parts = [Part(find_lab(version.lab_id), Path(f"{name}.py"), version.text, is_learners=False)]
        for test_name, test in self._part.tests.items():
            try:
                with grafted(parts), watchdog(SECONDS, self._part.file):
                    test(self._names(version))
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                if find_todo(error) or (isinstance(error, LabHang) and name.startswith("correct")):
                    raise
                return test_name, learners_line(error, self._part.file), why(error)
        return None

    def _names(self, version: Version) -> Any:
        """What a test takes. make_scheduler(...) makes the scheduler that the version is, if it is one."""
        names = self._engine()
        if version.config:
            make_scheduler = names.make_scheduler  # that of mini_vllm.observe.trace, which takes a whole config
            names.make_scheduler = lambda **sizes: make_scheduler({**sizes, **version.config})
        return names


def why(error: BaseException) -> str:
    """What an error says, for somebody who looks at the line that raised it."""
    if isinstance(error, LabHang):
        return f"it did not come back within {SECONDS:.0f} s"
    return clip(str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}")
