"""The pytest side: `pytest phase-03-*/labs` grades the learner's files.

--impl=mine|reference|stub|bug:NAME|variant:NAME    whose code is graded; a banner line says so
--mine=all                                          graft every part that the learner has passed, not this lab's alone
--all-messages                                      explain every red test, not the first of each lab
"""

from collections import defaultdict
from collections.abc import Generator
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from labkit.grade import isolated
from labkit.grade.messages import explain
from labkit.grade.notes import telling_more
from labkit.grade.runner import (
    FILES_THAT_WARN,
    HANG,
    NO_CONCEPT,
    NOT_GRADED,
    PASSED,
    Result,
    namespace_of,
    nearest_first,
    one_line,
    outcome_of,
    prepare,
    read_tests,
    seconds_for,
    why_not_graded,
)
from labkit.grade.watchdog import watchdog
from labkit.labs import progress
from labkit.labs.catalog import ROOT, Lab, LabkitError, labs
from labkit.labs.graft import Part, grafted
from labkit.labs.implementations import make_mine, part_of
from labkit.labs.together import account, with_company

STASH = pytest.StashKey["Grading"]()


class Grading:
    """One pytest run over labs: whose code, and what came out."""

    def __init__(self, config: pytest.Config) -> None:
        self.impl: str = config.getoption("--impl")
        self.with_all_parts = config.getoption("--mine") == "all"
        self.is_debugging: bool = config.getoption("usepdb")
        self.every_message: bool = config.getoption("--all-messages")
        self.by_folder: dict[Path, Lab] = {lab.folder: lab for lab in labs()}
        self.parts: dict[str, Part | LabkitError | None] = {}
        self.results: dict[str, list[Result]] = defaultdict(list)
        self.apart: dict[str, dict[str, Result]] = {}  # by lab and test
        # a learner's file runs in another process, which alone it may end; a debugger needs it in this one
        self.is_apart = self.impl == "mine" and not self.with_all_parts and not self.is_debugging

    def lab_of(self, item: pytest.Item) -> Lab | None:
        return self.by_folder.get(item.path.parent)

    def part(self, lab: Lab) -> Part | None:
        """The graded file of a lab, loaded once; None is the reference. Errors: LabkitError."""
        if lab.id not in self.parts:
            try:
                prepare(lab)
                self.parts[lab.id] = part_of(lab, self.impl)
            except LabkitError as error:
                self.parts[lab.id] = error
        part = self.parts[lab.id]
        if isinstance(part, LabkitError):
            raise part
        return part

    def all_parts(self, lab: Lab) -> list[Part]:
        """This lab's part, after those of the labs that are done if all are asked for."""
        parts = []
        if self.with_all_parts and not lab.is_break_it:
            done = progress.read()
            parts = [
                part
                for other in self.by_folder.values()
                if other.id != lab.id and progress.is_done(other.id, done) and (part := self.part(other))
            ]
        own = self.part(lab)
        return with_company([*parts, own] if own else parts)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("labs")
    group.addoption("--impl", default="mine", help="mine, reference, stub, bug:NAME or variant:NAME")
    group.addoption("--mine", default="lab", choices=["lab", "all"], help="all: every part that you have passed")
    group.addoption("--all-messages", action="store_true", help="explain every red test of a lab, not the first only")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.stash[STASH] = Grading(config)
    if asked_for(config):  # labkit says what is red; pytest's own account would say it again, at length
        config.option.tbstyle, config.option.reportchars = "no", "N"
        for package in FILES_THAT_WARN.split("|"):
            config.addinivalue_line("filterwarnings", rf"ignore::RuntimeWarning:{package}.*")


def asked_for(config: pytest.Config) -> list[Lab]:
    """The labs in, or around, the folders and files of the command line."""
    named = [(config.invocation_params.dir / arg.split("::")[0]).resolve() for arg in config.args]
    inside = [path for path in named if ROOT in path.parents]
    folders = config.stash[STASH].by_folder
    return [
        lab
        for folder, lab in folders.items()
        if any(path in (folder, *folder.parents) or folder in path.parents for path in inside)
    ]


def pytest_report_header(config: pytest.Config) -> list[str]:
    grading = config.stash[STASH]
    graded = asked_for(config)
    if not graded:
        return []
    if grading.impl != "mine":
        return [f"labs: grading {grading.impl}, not your code"]
    made = [lab for lab in graded if make_mine(lab)]
    lines = [f"labs: grading your mine.py of {', '.join(lab.id for lab in graded)}"]
    if made:
        lines.insert(0, f"labs: new here, so everything is red, as it should be. Start with {made[0].typed}")
    return lines


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Labs in the order in which they are read, and not in that of their folders; what is no lab stays in front."""
    order = {folder: number for number, folder in enumerate(config.stash[STASH].by_folder)}
    items.sort(key=lambda item: order.get(item.path.parent, -1))


class NotGraded(pytest.Module):
    """The tests of a lab that this machine cannot grade: not even imported, and they count as nothing."""

    def collect(self) -> list[pytest.Item]:
        return []


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    grading = parent.config.stash[STASH]
    lab = grading.by_folder.get(module_path.parent)
    if lab is None or why_not_graded(lab) is None:
        return None
    grading.results[lab.id] = [Result(lab.id, "", NO_CONCEPT, NOT_GRADED, "", 0.0)]
    return NotGraded.from_parent(parent, path=module_path)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    named = getattr(metafunc.function, "lab_cases", None)
    if named is not None:
        metafunc.parametrize("case", list(named.values()), ids=list(named))


@pytest.fixture
def lab(request: pytest.FixtureRequest) -> Generator[Any, None, None]:
    """The engine's public names, with the graded part in its place."""
    grading = request.config.stash[STASH]
    lab = grading.lab_of(request.node)
    assert lab is not None, f"{request.node.path} lies in no lab's folder"
    if reason := why_not_graded(lab):
        pytest.skip(f"{NOT_GRADED}: {reason}")
    if grading.is_apart:
        yield None
        return
    with grafted(grading.all_parts(lab)):
        yield namespace_of(lab, grading.part(lab))


class Told(Exception):
    """A test that was run in another process is red there."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.message)
        self.result = result


@pytest.hookimpl(tryfirst=True, specname="pytest_pyfunc_call")
def pytest_labs_run_apart(pyfuncitem: pytest.Function) -> object:
    """Runs all that is asked of a lab at once, and then says of each test what came out."""
    grading = pyfuncitem.config.stash[STASH]
    lab = grading.lab_of(pyfuncitem)
    if lab is None or not grading.is_apart:
        return None
    if lab.id not in grading.apart:
        names = {item.name for item in pyfuncitem.session.items if grading.lab_of(item) == lab}
        results = isolated.grade(lab, lab.mine, silent=False, only=names)
        grading.apart[lab.id] = {result.test: result for result in results}
    result = grading.apart[lab.id][pyfuncitem.name]
    if result.outcome != PASSED:
        raise Told(result)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    grading = pyfuncitem.config.stash[STASH]
    lab = grading.lab_of(pyfuncitem)
    if lab is None or grading.impl == "reference" or grading.is_apart:
        return (yield)
    hung = any(result.outcome == HANG for result in grading.results[lab.id])
    part = grading.part(lab)
    arguments = {name: pyfuncitem.funcargs[name] for name in signature(pyfuncitem.obj).parameters}
    more = telling_more(grading.all_parts(lab), part, partial(pyfuncitem.obj, **arguments), arguments.get("lab"))
    with watchdog(seconds_for(lab, hung), part.file if part else None), more:
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    grading = item.config.stash[STASH]
    lab = grading.lab_of(item)
    if lab is None or report.when == "teardown":
        return report
    concept = item.obj.lab_concept  # type: ignore[attr-defined]
    if report.skipped:
        grading.results[lab.id].append(Result(lab.id, item.name, concept, NOT_GRADED, "", 0.0))
    elif call.excinfo is not None:
        error = call.excinfo.value
        part = grading.parts.get(lab.id)
        part = part if isinstance(part, Part) else None
        result = Result(
            lab.id,
            item.name,
            concept,
            outcome_of(error),
            explain(error, concept, lab, part, item.name),
            report.duration,
            account(part),
        )
        if isinstance(error, Told):
            result = error.result
        report.outcome = "failed"
        report.longrepr = result.message
        grading.results[lab.id].append(result)
    elif report.when == "call":
        said = grading.apart[lab.id][item.name].account if grading.is_apart else account(grading.part(lab))
        grading.results[lab.id].append(Result(lab.id, item.name, concept, PASSED, "", report.duration, said))
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    if report.skipped and NOT_GRADED in str(report.longrepr):
        return "not graded here", "n", "NOT GRADED HERE"
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    grading = config.stash[STASH]
    if not grading.results:
        return
    for lab_id, results in grading.results.items():
        if red := nearest_first(results):
            terminalreporter.section(f"{lab_id} {red[0].test}", sep="-")
            for result in red if grading.every_message else red[:1]:
                terminalreporter.write_line(result.message)
            if len(red) > 1 and not grading.every_message:
                terminalreporter.write_line(f"({len(red) - 1} more are red; --all-messages explains each)")
    terminalreporter.section(f"labs, {grading.impl}")
    for lab in grading.by_folder.values():
        if graded := grading.results.get(lab.id):
            terminalreporter.write_line(one_line(lab, graded, lab.mine if grading.impl == "mine" else None))
    unfinished = [
        lab for lab in grading.by_folder.values() if any(each.message for each in grading.results.get(lab.id, ()))
    ]
    if grading.impl == "mine" and unfinished:
        terminalreporter.write_line(f"next: lab watch {unfinished[0].id}, or lab hint {unfinished[0].id}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    grading = session.config.stash[STASH]
    if grading.is_apart:
        for lab in grading.by_folder.values():
            if (results := grading.results.get(lab.id)) and why_not_graded(lab) is None:
                text = progress.fingerprint(lab.mine)
                progress.record_results(lab.id, results, len(read_tests(lab)), text)
