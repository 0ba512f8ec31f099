"""Runs the tests of a lab without pytest: for `lab watch`, for the proof of the labs, and in a page of the book.

The tests are the same files; what they need of pytest, labkit has. Each runs under the watchdog, the parts grafted.
"""

import inspect
import json
import os
import platform
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from labkit.grade.breaking import WHOLE_SUITE_SECONDS, Suite
from labkit.grade.messages import explain, find_todo
from labkit.grade.notes import telling_more
from labkit.grade.watchdog import LabHang, limit, watchdog
from labkit.labs import source
from labkit.labs.catalog import C_COMPILER, TRACES, Lab, LabkitError
from labkit.labs.graft import Part, grafted, load, namespace, ungrafted
from labkit.labs.together import Yours, account, with_company
from labkit.testing import draw
from labkit.testing.words import Concept, expand

FILES_THAT_WARN = r"triton|numpy"
NO_CONCEPT = Concept("", "", False)
PASSED, FAILED, TODO, HANG, NOT_RUN = "passed", "failed", "todo", "hang", "not run"
NOT_GRADED = "not graded here"


@dataclass(frozen=True)
class Result:
    """One test of one lab."""

    lab_id: str
    test: str
    concept: Concept
    outcome: str
    message: str
    seconds: float
    account: str = ""  # of the parts that were graded together


@dataclass(frozen=True)
class Test:
    """One run of a test function."""

    name: str
    function: Callable[..., None]
    arguments: dict[str, Any]

    @property
    def concept(self) -> Concept:
        found: Concept = self.function.lab_concept  # type: ignore[attr-defined]
        return found


def read_tests(lab: Lab) -> list[Test]:
    """The tests of a lab, in the order of its files. Errors: LabkitError for one without a concept."""
    found = []
    for file in sorted(lab.folder.glob("test_*.py")):
        found += list(tests_in(load(file), file))
    return found


def tests_in(module: ModuleType, file: Path) -> Iterator[Test]:
    for name, function in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(function):
            if not hasattr(function, "lab_concept"):
                raise LabkitError(f"{file}: {name} has no @concept")
            for suffix, arguments in expand(function):
                yield Test(name + suffix, function, arguments)


def why_not_graded(lab: Lab) -> str | None:
    """What this machine lacks for the lab, in one sentence; None when it can be graded."""
    missing = [package for package in lab.packages if find_spec(package) is None]
    if missing:
        if "triton" in missing and platform.system() != "Linux":
            return f"lab {lab.id} needs triton, which has wheels for Linux only: not graded here"
        return f"lab {lab.id} needs {' and '.join(missing)} (pip install -e '.[engine]'): not graded here"
    if C_COMPILER in lab.needs:
        from mini_vllm.native.c_compiler import find_compiler

        if find_compiler() is None:
            return f"lab {lab.id} needs a C compiler (as by: apt install gcc): not graded here"
    return None


def prepare(lab: Lab) -> None:
    """What must be set before the lab's modules are imported: Triton interprets where there is no GPU.

    NumPy, which then computes, warns of overflows inside Triton's files; a test says what came of them.
    """
    if "triton" in lab.needs:
        import torch

        warnings.filterwarnings("ignore", category=RuntimeWarning, module=FILES_THAT_WARN)
        if not torch.cuda.is_available():
            os.environ.setdefault("TRITON_INTERPRET", "1")


def run_lab(lab: Lab, parts: Sequence[Part], tests: Sequence[Test] | None = None) -> list[Result]:
    """All tests of a lab on the reference with these parts."""
    if reason := why_not_graded(lab):
        return [Result(lab.id, "", NO_CONCEPT, NOT_GRADED, reason, 0.0)]
    prepare(lab)
    results: list[Result] = []
    for test in read_tests(lab) if tests is None else tests:
        hung = any(result.outcome == HANG for result in results)
        results.append(run_test(lab, parts, test, seconds_for(lab, hung)))
    return results


def seconds_for(lab: Lab, hung: bool) -> float:
    """How long one test of a lab may run; hung: one before it did not come back."""
    if lab.is_break_it:  # each of the learner's own tests is watched for itself
        return WHOLE_SUITE_SECONDS
    return limit(hung)


def run_test(lab: Lab, parts: Sequence[Part], test: Test, seconds: float | None = None) -> Result:
    """One test. Whatever the graded code does, the next test can run. Its time is the processor's."""
    start = time.process_time()
    part = next((part for part in parts if part.lab.id == lab.id), None)
    outcome, message = PASSED, ""
    try:
        company = with_company(parts)
        with grafted(company), watchdog(seconds, part.file) if part else nullcontext():
            run = partial(test.function, names := namespace_of(lab, part), **test.arguments)
            with telling_more(company, part, run, names):
                run()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        outcome = outcome_of(error)
        message = explain(error, test.concept, lab, part, test.name)
    return Result(lab.id, test.name, test.concept, outcome, message, time.process_time() - start, account(part))


def outcome_of(error: BaseException) -> str:
    """What a test that raised is."""
    if find_todo(error):
        return TODO
    return HANG if isinstance(error, LabHang) else NOT_RUN if isinstance(error, LabkitError) else FAILED


def nearest_first(results: Sequence[Result]) -> list[Result]:
    """What is red, in the order in which it is to be read: first the test that is nearest to the rule that is broken.

    A test that waits for a part that is not written comes last. A test may say that it is nearest. Else a broken rule
    spoils all cases of its own test, and a few of one that only meets it. Tests that search or illustrate come behind
    these: they meet every rule. If all is red, the order is that of the lab.
    """
    cases: dict[str, list[bool]] = defaultdict(list)
    for result in results:
        cases[result.test.partition("[")[0]].append(bool(result.message))

    def distance(result: Result) -> tuple[bool, bool, bool, float]:
        red, concept = cases[result.test.partition("[")[0]], result.concept
        is_far = concept.searches or concept.illustrates
        return result.outcome == TODO, not concept.nearest, is_far, -sum(red) / len(red)

    found = [result for result in results if result.message]
    all_red = len(found) == len(results)
    return sorted(found, key=(lambda result: result.outcome == TODO) if all_red else distance)


def is_begun(lab: Lab, file: Path) -> bool:
    """Whether the learner has written something into a file that was the stub."""
    try:
        return source.read(file) != source.read(lab.stub)
    except LabkitError:
        return file.exists()


def one_line(lab: Lab, results: Sequence[Result], file: Path | None = None) -> str:
    """A lab's state after a run. file: what was graded, if that is a learner's."""
    green = sum(result.outcome == PASSED for result in results)
    if any(result.outcome == NOT_GRADED for result in results):
        state = why_not_graded(lab) or NOT_GRADED
    elif green == len(results):
        state = f"done, {green} of {green} green"
    elif all(result.outcome == NOT_RUN for result in results):
        state = f"the file cannot be graded; the lab has {len(results)} tests"
    elif all(result.outcome == TODO for result in results) and not (file and is_begun(lab, file)):
        state = f"0 of {len(results)}, not begun"
    elif num_waiting := sum(result.outcome == TODO for result in results):
        state = f"{green} of {len(results)} green, begun"
        if num_waiting < len(results):
            state += f"; {num_waiting} wait for what is not written"
    else:
        state = f"{green} of {len(results)} green"
    line = f"{lab.id}  {lab.title:42} {state}"
    return f"{line}\n       {results[0].account}" if results and results[0].account else line


def namespace_of(lab: Lab, part: Part | None = None) -> SimpleNamespace:
    """What the fixture `lab` is: the public names of the phase's modules, and the ways to draw state.

    part: the learner's tests in a break-it lab, which become lab.suite.
    """
    names = namespace(lab.modules)
    names.draw = SimpleNamespace(blocks=draw.blocks, queue=draw.queue, scheduler=draw.scheduler, timeline=draw.timeline)
    names.drive = draw.drive

    @contextmanager
    def reference() -> Iterator[SimpleNamespace]:
        with ungrafted():
            yield namespace_of(lab)

    names.reference = reference
    if lab.together:
        names.yours = Yours(part, namespace_of)
    if part and lab.is_break_it:
        names.suite = Suite(lab, part, lambda: namespace_of(lab))
    names.read_trace = read_trace
    return names


def read_trace(name: str) -> Any:
    """A trace recorded from vLLM, by its name, which begins with that of its file: watermark_057."""
    text = (TRACES / f"{name.rpartition('_')[0]}.jsonl").read_text(encoding="utf-8")
    return next(trace for trace in map(json.loads, text.splitlines()) if trace["name"] == name)
