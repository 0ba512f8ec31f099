"""Break-it labs: the learner writes the tests, and they are graded on correct and on buggy versions of the engine.

A lab of debugging is one that has cases, too: engines of which the learner sees what they left behind, and names the
culprit. proof/versions.toml says of each which bug it is, which function is at fault and since when;
labkit.labs.evidence makes what is seen.

The versions lie packed in the lab's folder (versions.txt), so that learners do not read them by accident. They are made
from the seeded bugs and the other correct ways of the phase's labs, as proof/versions.toml lists them by lab:

    ["02.5"]
    correct = ["02.1:ordered_dict", ...]
    ["02.5".buggy]
    I1 = ["02.2:free_forgets", ...]        the law of the break-it lab's contract that these break

An entry may also be a table {scheduler = "warm_first", ...}: that scheduler of the family, with its options; with a bug
of some lab if it has a key bug = "03.11:never_copies". Among the correct ones that is a bug which the laws allow, and
it may stand alone: {bug = "03.1:half_for_prompts"}. Tests get a scheduler of the family from make_scheduler(...), to
which they give the sizes.

A correct version is named correct_1, ..., a buggy one I1_1, ...: by its law, and not by what is wrong with it.
"""

import base64
import importlib
import json
import random
import sys
import time
import tomllib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from operator import is_
from pathlib import Path
from typing import Any, NamedTuple

from labkit.grade.messages import clip, find_todo, learners_line
from labkit.grade.watchdog import LabHang, limit, watchdog
from labkit.labs import source
from labkit.labs.catalog import ROOT, Lab, LabkitError, Slot, find_lab
from labkit.labs.graft import Part, grafted, load
from labkit.labs.implementations import find_answer, other_ways, seeded_bugs
from labkit.testing.search import scaled
from labkit.testing.words import Check, LabFailure, LabTodo

SECONDS = 1.0  # for one of the learner's tests on one version
WHOLE_SUITE_SECONDS = 60.0  # for all that a grade of one version may run; each of it is watched for itself
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
    """The versions that proof/versions.toml lists for a lab."""
    listed = listed_versions(lab)
    for prefix, answers, entries in [
        ("correct", other_ways, listed["correct"]),
        *((law, seeded_bugs, entries) for law, entries in listed["buggy"].items()),
    ]:
        for number, entry in enumerate(entries, start=1):
            name = f"{prefix}_{number}"
            if isinstance(entry, dict):
                yield scheduler_of_the_family(name, entry) if "scheduler" in entry else allowed_bug(name, entry["bug"])
                continue
            answer = find_answer(answers, entry)
            at_fault = ", ".join(slot.qualname for slot in answer.lab.slots)
            about = answer.story if answers is other_ways else f"something is wrong in {at_fault}"
            yield Version(name, answer.lab.id, about, answer.code)
    for case in lab.cases:
        known = listed["cases"][case]
        yield Version(f"case_{case}", "", "", "", {"culprit": known["culprit"], "step": known["step"]})


def listed_versions(lab: Lab) -> dict[str, Any]:
    """What proof/versions.toml says of a lab."""
    listed: dict[str, Any] = tomllib.loads((ROOT / "proof" / "versions.toml").read_text(encoding="utf-8"))[lab.id]
    return listed


def scheduler_of_the_family(name: str, entry: Mapping[str, Any]) -> Version:
    """A version of a table in proof/versions.toml."""
    config = {key: value for key, value in entry.items() if key != "bug"}
    options = [key if value is True else f"{key} {value}" for key, value in config.items() if key != "scheduler"]
    what = ", ".join([config["scheduler"], *options])
    if "bug" not in entry:
        return Version(name, "", what, "", config)
    bug = find_answer(seeded_bugs, entry["bug"])
    mistake = "a mistake"
    if name.startswith("correct"):
        mistake = f"a mistake that is none against these laws: {bug.story}"
    return Version(name, bug.lab.id, f"{what}, with {mistake}", bug.code, config)


def allowed_bug(name: str, entry: str) -> Version:
    """A correct version that is a bug of some lab, and none against the laws that are tested here."""
    bug = find_answer(seeded_bugs, entry)
    return Version(name, bug.lab.id, f"a freedom that these laws leave: {bug.story}", bug.code)


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


class Red(NamedTuple):
    """One of the learner's tests is red on a version. is_hang: it did not come back."""

    test: str
    version: str
    line: str
    text: str
    is_hang: bool = False


class Run(NamedTuple):
    """One of the learner's tests on one version. seconds: of the processor."""

    red: Red | None
    seconds: float


class Suite:
    """The learner's tests, and the versions to run them on. engine: makes the names that a test takes.

    A test counts if it is green on every correct version, and on the buggy one when the mistake is taken out of it.
    Every run begins afresh: with the learner's file, the engine and the random numbers as they are at first.
    """

    def __init__(self, lab: Lab, part: Part, engine: Callable[[], Any]) -> None:
        self._lab, self._part, self._engine = lab, part, engine
        self._versions = unpack(lab.versions.read_text(encoding="utf-8"))
        self._correct = [name for name in self._versions if name.startswith("correct")]

    def must_be_green(self, name: str) -> None:
        """None of the learner's tests may be red on a correct version.

        Raises LabFailure that shows the one that is, LabHang for one that does not come back.
        """
        self._must_be_written()
        Check(None).compared()
        for test in self._part.tests:
            red = self._on_correct(test, name).red if self._meets(test, name) else None
            if red and red.is_hang:
                hang = LabHang()
                hang.where = red.line
                raise hang
            if red:
                what = [self._about(name), f"{test} is red on it", f"  {red.line}"]
                if red.text and red.text not in red.line:
                    what.append(f"  {red.text}")
                raise LabFailure("\n  ".join(what), "every test is green", "red")

    def must_be_red(self, name: str) -> None:
        """One of the learner's tests that count must be red on a buggy version. Raises LabFailure."""
        self._must_be_written()
        Check(None).compared()
        reasons = {}
        for test in sorted(self._part.tests, key=self._seconds):
            hung = self._hung(test)
            red = hung.red if hung else self._run(test, self._versions[name]).red
            if red:
                reasons[test] = self._why_not_counted(red)
                if reasons[test] is None:
                    return
        said = [
            f"{test} is red on it, but it does not count: {reasons[test]}"
            for test in self._part.tests
            if test in reasons
        ]
        got = "red is only what does not count" if reasons else "all are green"
        raise LabFailure("\n  ".join([self._about(name), *said[:1]]), "one of your tests is red on it", got)

    def _meets(self, test: str, name: str) -> bool:
        """Whether a test is tried on a correct version: always for a grade; for `lab watch` on two of them."""
        every = len(self._correct) // scaled(len(self._correct), 2)
        return (list(self._part.tests).index(test) + self._correct.index(name)) % every == 0

    def _seconds(self, test: str) -> float:
        """What a test has taken on a correct version: the quick ones go first."""
        return max((run.seconds for (other, _), run in self._part.runs.items() if other == test), default=0.0)

    def must_name(self, case: str) -> None:
        """The culprit of a case, the step and the reason must be given, the first two rightly. Raises LabFailure."""
        given = getattr(self._part.module, f"CASE_{case.upper()}", None)
        if not isinstance(given, dict) or not given.get("culprit"):
            raise LabTodo(self._lab.id)
        Check(None).compared()
        answer = self._versions[f"case_{case}"].config
        culprit, step, reason = (given.get(key) for key in ("culprit", "step", "why"))
        if type(culprit) is not str or culprit not in answer["culprit"]:
            expected = "one whose mistake leaves all of this evidence"
            got = clip(repr(culprit)) + ("" if is_known(str(culprit)) else ", and there is none of that name")
            raise LabFailure(f"case {case}, the function at fault", expected, got)
        if type(step) is not int or step not in answer["step"]:  # a bool is no number
            expected = "the first one whose record no correct engine leaves"
            raise LabFailure(f"case {case}, the step", expected, clip(repr(step)))
        if type(reason) is not str or not any(map(str.isalpha, reason)):
            raise LabFailure(f"case {case}, why", "some words of yours", "none")

    def _must_be_written(self) -> None:
        if self._part.unwritten:
            raise LabTodo(self._lab.id)

    def _about(self, name: str) -> str:
        """What a learner may know of a version."""
        return f"{spoken(name)}: {clip(self._versions[name].about, 200)}"

    def _why_not_counted(self, red: Red) -> str | None:
        """Why a test that is red on a buggy version says nothing by it, in a sentence; None if it does."""
        for name in (each for each in self._correct if self._meets(red.test, each)):
            other = self._on_correct(red.test, name).red
            if other:
                what = "it does not come back from" if other.is_hang else "so it is on"
                return f"{what} {spoken(other.version)}\n  {other.line}"
        version = self._versions[red.version]
        times = random.SystemRandom().randint(3, 4)  # by chance: a test that counts its runs cannot know
        for _ in range(scaled(times, 0)):
            if other := self._run(red.test, without_the_mistake(version)).red:
                return f"so it is without the mistake\n  {other.line}"
        if red.is_hang:
            if self._seconds(red.test) > seconds_for_a_test() / 2:
                return f"it is late, but it takes most of its {seconds_for_a_test():g} s on a correct version, too"
        elif not all(self._run(red.test, version).red for _ in range(scaled(3, 0))):  # a coin may fall so once
            return f"another time it is green\n  {red.line}"
        return None

    def _on_correct(self, test: str, name: str) -> Run:
        """A test on a correct version. What it said is kept; one that has not come back from another is not tried."""
        runs: dict[tuple[str, str], Run] = self._part.runs
        if hung := self._hung(test):
            return hung
        if (test, name) not in runs:
            runs[test, name] = self._run(test, self._versions[name])
        return runs[test, name]

    def _hung(self, test: str) -> Run | None:
        """The run of a test that did not come back from a correct version, if there is one: it is not run again."""
        runs = (run for (other, _), run in self._part.runs.items() if other == test)
        return next((run for run in runs if run.red and run.red.is_hang), None)

    def _run(self, test: str, version: Version) -> Run:
        """A test on a version, from a fresh start."""
        parts = parts_of(version)
        hung = any(run.red and run.red.is_hang for run in self._part.runs.values())
        start, red, module = time.process_time(), None, None
        try:
            with grafted(parts), unchanged(self._lab), watchdog(seconds_for_a_test(hung), self._part.file):
                module = load(self._part.file, self._part.text)
                start = time.process_time()
                vars(module)[test](self._names(version))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            if find_todo(error):
                raise
            line = learners_line(error, self._part.file)
            red = Red(test, version.name, line, why(error), isinstance(error, LabHang))
        finally:
            for each in (module, *(part.module for part in parts)):
                if each:  # thousands of runs would leave thousands of modules, and every graft looks at all
                    del sys.modules[each.__name__]
        return Run(red, time.process_time() - start)

    def _names(self, version: Version) -> Any:
        """What a test takes. make_scheduler(...) makes the scheduler that the version is, if it is one."""
        names = self._engine()
        del names.reference, names.read_trace  # a test that asks the reference has no law of its own
        if version.config:
            make_scheduler = names.make_scheduler  # that of mini_vllm.observe.trace, which takes a whole config
            names.make_scheduler = lambda **sizes: make_scheduler({**sizes, **version.config})
        return names


def seconds_for_a_test(hung: bool = False) -> float:
    """How long one of the learner's tests may run on one version. hung: one before it did not come back."""
    return min(SECONDS, limit(hung))


def parts_of(version: Version) -> list[Part]:
    """What a version grafts, under a name that tells nothing: no test may see which one it runs on."""
    if not version.lab_id:
        return []
    return [Part(find_lab(version.lab_id), Path("engine.py"), version.text, is_learners=False)]


def read_versions(lab: Lab) -> None:
    """Compile all versions of a break-it lab, before there is a file to grade."""
    for version in unpack(lab.versions.read_text(encoding="utf-8")).values():
        for part in (*parts_of(version), *parts_of(without_the_mistake(version))):
            del sys.modules[part.module.__name__]


def is_known(function: str) -> bool:
    """Whether the engine has a function of that name, as "module:Class.function"."""
    slot = Slot.parse(function)
    try:
        return bool(slot.qualname) and source.read_module(slot.module).find(slot.qualname) is not None
    except LabkitError:
        return False


def spoken(name: str) -> str:
    """correct_2 as "correct, version 2"."""
    return name.replace("_", ", version ")


def without_the_mistake(version: Version) -> Version:
    """The same version, written as the reference has it."""
    return version._replace(text=source.render_solution(find_lab(version.lab_id)) if version.lab_id else "")


@contextmanager
def unchanged(lab: Lab) -> Iterator[None]:
    """What a test changes in the classes of the engine is put back, and it draws the same random numbers each time.

    Raises LabFailure if there was something to put back: later tests would run on another engine.
    """
    modules = [importlib.import_module(name) for name in lab.modules]
    owners = {
        value for module in modules for value in vars(module).values() if isinstance(value, type) and is_ours(value)
    }
    before: list[tuple[Any, dict[str, Any]]] = [(owner, dict(vars(owner))) for owner in (*modules, *owners)]
    state = random.getstate()
    random.seed(0)
    if "torch" in lab.needs:
        sys.modules["torch"].manual_seed(0)
    try:
        yield
    finally:
        random.setstate(state)
        changed = [owner for owner, names in before if put_back(owner, names)]
    if changed:
        names = ", ".join(owner.__name__ for owner in changed)
        raise LabFailure(f"what a test changes in {names} stays when it is over", "it is put back", "it is not")


def is_ours(owner: type[Any]) -> bool:
    return owner.__module__.split(".")[0] in ("mini_vllm", "labkit")


def put_back(owner: Any, names: Mapping[str, Any]) -> bool:
    """Let an owner have these names again, and no other ones; whether it had other ones."""
    now = dict(vars(owner))
    if len(now) == len(names) and all(map(is_, now.values(), names.values())):  # as a rule, and by far the fastest
        return False
    different = {name for name in {*now, *names} if now.get(name) is not names.get(name)}
    different -= {"__annotations__", "__annotations_cache__", "__doc__"} | {
        name for name in different if name.startswith("_abc_")
    }
    for name in different:
        if name in names:
            setattr(owner, name, names[name])
        else:
            delattr(owner, name)
    return bool(different)


def why(error: BaseException) -> str:
    """What an error says, for a reader who looks at the line that raised it."""
    if isinstance(error, LabHang):
        return f"it did not come back within {seconds_for_a_test():g} s"
    return clip(str(error) if isinstance(error, AssertionError | LabkitError) else f"{type(error).__name__}: {error}")
