"""The grader itself, on a lab made here: what a learner's file may be, and what is said of it."""

import ast
import json
import math
import os
import random
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from labkit import cli
from labkit.cli import beside, commands
from labkit.compare import behaviour
from labkit.grade import breaking, deadline, isolated
from labkit.grade.messages import MAX_LINES
from labkit.grade.runner import (
    FAILED,
    HANG,
    NOT_GRADED,
    PASSED,
    TODO,
    Result,
    namespace_of,
    nearest_first,
    one_line,
    read_tests,
    run_lab,
)
from labkit.grade.watchdog import LabHang, limits, watchdog
from labkit.labs import catalog, evidence, progress, source
from labkit.labs.catalog import Lab, LabkitError, Slot
from labkit.labs.graft import Part, grafted, namespace
from labkit.labs.implementations import Answer, other_ways, part_of
from labkit.testing.words import Concept, LabFailure, LabTodo, cases, check, raises
from mini_vllm.block_pool import FreeKVCacheBlockQueue
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.trace import run_trace
from mini_vllm.params import SamplingParams
from mini_vllm.policies.registry import make_scheduler
from mini_vllm.policies.v0.fork import ForkingKVCacheManager
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler

TESTS = """
from labkit import cases, check, concept


@concept("A decode is one token behind.", invariant="I1")
def test_decode(lab):
    request = lab.Request("a", [1, 2, 3], lab.SamplingParams())
    request.num_computed_tokens = 2
    check(lambda: "the state")("needs_sample", lab.Scheduler.needs_sample(request, 1), equals=True)


@concept("An inner chunk does not sample.", invariant="I1")
@cases(one=1, two=2)
def test_inner(lab, case):
    request = lab.Request("a", [1, 2, 3, 4], lab.SamplingParams())
    check()("needs_sample", lab.Scheduler.needs_sample(request, case), equals=False)
"""
HEAD = """
from mini_vllm.scheduler import Scheduler as ReferenceScheduler

class Scheduler(ReferenceScheduler):
"""
RIGHT = (
    HEAD
    + """
    @staticmethod
    def needs_sample(request, num_scheduled):
        return request.num_tokens - request.num_computed_tokens == num_scheduled
"""
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab of one slot, in a folder of its own."""
    folder = tmp_path / "phase-99-test" / "labs" / "lab-01"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text(TESTS)
    (folder / "contract.md").write_text("- **I1** computed plus scheduled equals known\n\nNames: `Scheduler`\n")
    (folder / "hints.md").write_text("# Hints\n\n## 1. Q\n\nWhy?\n\n## 2. I\n\nLaw.\n\n## 3. S\n\nShape.\n")
    slot = Slot.parse("mini_vllm.scheduler:Scheduler.needs_sample")
    modules = ("mini_vllm.request", "mini_vllm.kv_cache", "mini_vllm.scheduler")
    made = Lab(
        "99.1",
        "Which requests sample",
        folder,
        (slot,),
        (),
        5,
        ("sampling",),
        ("vllm.v1.core.sched.scheduler:Scheduler.schedule",),
        "docs/x.md#y",
        (),
        modules,
    )
    made.stub.write_text(source.render_stub(made))
    return made


def grade(lab: Lab, text: str) -> list[Result]:
    lab.mine.write_text(textwrap.dedent(text))
    return run_lab(lab, [Part(lab, lab.mine)])


def grade_soon(lab: Lab, text: str) -> list[Result]:
    """The same for code that hangs, which need not do so for long."""
    with limits(0.3, 0.2):
        return grade(lab, text)


def outcomes(results: list[Result]) -> list[str]:
    return [result.outcome for result in results]


# --- right, wrong, not begun ----------------------------------------------------------------------------------------


def test_reference_stub_and_a_right_answer(lab: Lab) -> None:
    assert outcomes(run_lab(lab, [])) == [PASSED] * 3
    results = run_lab(lab, [Part(lab, lab.stub)])
    assert outcomes(results) == [TODO] * 3
    assert len(results[0].message.splitlines()) == 2
    assert outcomes(grade(lab, RIGHT)) == [PASSED] * 3


def test_a_wrong_answer_is_explained_in_the_fixed_order(lab: Lab) -> None:
    wrong = RIGHT.replace("== num_scheduled", "!= num_scheduled")
    message = grade(lab, wrong)[0].message
    places = [
        message.index(part)
        for part in ("A decode is one token behind.", "I1  computed plus", "the state", "expected  True", "got       F",
                     "mine.py:", "lab hint 99.1")
    ]  # fmt: skip
    assert places == sorted(places)
    assert len(message.splitlines()) <= MAX_LINES


def test_an_error_in_the_answer_shows_the_learners_line(lab: Lab) -> None:
    message = grade(lab, RIGHT.replace("request.num_tokens -", "request.tokens -"))[0].message
    assert "AttributeError: 'Request' object has no attribute 'tokens'" in message
    assert "mine.py:8: return request.tokens" in message
    assert "Traceback" not in message


ON_RESULTS = """
from labkit import check, concept


@concept("A step has a budget.", invariant="I1")
def test_a_step(lab):
    manager = lab.KVCacheManager(9, 4)
    scheduler = lab.Scheduler(manager, max_num_seqs=2, max_num_batched_tokens=8)
    check()("the step", scheduler.schedule().num_scheduled_tokens, equals={})
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "pass",
            "the call  schedule() returned None\n    expected  no error\n    got       AttributeError: 'NoneType'",
        ),
        ("return 5", "the call  schedule() returned 5\n"),
        ("raise KeyError(1)", "the call  schedule()\n    expected  no error\n    got       KeyError: 1\n"),
        ("assert self is None", "the call  schedule()\n"),
    ],
)
def test_a_message_shows_the_call_that_failed(lab: Lab, body: str, said: str) -> None:
    (lab.folder / "test_it.py").write_text(ON_RESULTS)
    slot = Slot.parse("mini_vllm.scheduler:Scheduler.schedule")
    other = Lab(**{**vars(lab), "slots": (slot,)})
    (result,) = grade(other, HEAD + f"    def schedule(self):\n        {body}\n")
    assert said in result.message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return None", "the call  to_slots() returned None\n"),
        ("while True: pass", "the call  to_slots()\n    expected  it comes back\n"),
        ("[][0]", "the call  to_slots()\n    expected  no error\n"),
    ],
)
@pytest.mark.slow
def test_it_shows_the_call_of_a_function_too(body: str, said: str) -> None:
    lab = catalog.find_lab("01.1")
    text = f"def to_slots(block_tables, requests, positions, block_size):\n    {body}\n"
    test = next(test for test in read_tests(lab) if test.name == "test_two_steps")
    with limits(0.3, 0.1):
        (result,) = run_lab(lab, [Part(lab, lab.mine, text, is_learners=False)], [test])
    assert said in result.message


def test_a_message_of_a_walk_shows_it_too() -> None:
    lab = catalog.find_lab("03.2")
    text = source.render_solution(lab).replace("        return output\n", "")
    tests = [test for test in read_tests(lab) if test.concept.searches]
    results = run_lab(lab, [Part(lab, lab.mine, text, is_learners=False)], tests)
    assert "step(): schedule() returned None" in results[0].message
    assert len(results[0].message.splitlines()) <= MAX_LINES


def test_the_test_nearest_to_the_broken_rule_is_shown_first() -> None:
    """Of one test a case is red, of the other all cases; a search is never nearest, and one test says that it is."""
    plain, search = Concept("", "I1", False), Concept("", "I1", False, searches=True)
    nearest = Concept("", "I1", True, nearest=True)
    results = [
        Result("99.1", name, about, outcome, "red" if outcome == FAILED else "", 0.0)
        for name, about, outcome in [
            ("test_search", search, FAILED),
            ("test_far[a]", plain, PASSED),
            ("test_far[b]", plain, FAILED),
            ("test_near[a]", plain, FAILED),
            ("test_near[b]", plain, FAILED),
            ("test_nearest", nearest, FAILED),
        ]
    ]
    assert [result.test for result in nearest_first(results)] == [
        "test_nearest", "test_near[a]", "test_near[b]", "test_far[b]", "test_search"
    ]  # fmt: skip
    red = [result for result in results if result.outcome == FAILED]
    assert nearest_first(red) == red, "if all is red, the order is that of the lab"


@pytest.mark.parametrize(
    ("lab_id", "old", "new", "nearest"),
    [
        ("03.2", "allocate_slots(request, n) is None", "not allocate_slots(request, n)", "no_new_block_is_no_refusal"),
        ("01.6", "left if is_stranded else 0, 0", "left - 1 if is_stranded else 0, 0", "what_nobody_holds"),
        ("01.6", "refused <= left", "refused < left", "what_nobody_holds"),
    ],
)
def test_the_message_is_that_of_the_rule_and_of_no_bystander(lab_id: str, old: str, new: str, nearest: str) -> None:
    lab = catalog.find_lab(lab_id)
    text = source.render_solution(lab).replace(old, new)
    red = nearest_first(run_lab(lab, [Part(lab, lab.mine, text, is_learners=False)]))
    assert red[0].test.partition("[")[0] == f"test_{nearest}"


def test_the_reference_is_whole_again_afterwards(lab: Lab) -> None:
    before = dict(vars(Scheduler))
    grade(lab, RIGHT.replace("return", "self = 1 / 0; return"))
    assert dict(vars(Scheduler)) == before


# --- hangs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("while True: pass", marks=pytest.mark.slow),
        pytest.param(
            "while True:\n            try:\n                x = 1\n            except Exception:\n                pass",
            marks=pytest.mark.slow,
        ),
        "while True:\n            try:\n                x = 1\n            except:\n                pass",
    ],
)
def test_a_hang_ends_with_its_line_and_the_rest_runs(lab: Lab, loop: str) -> None:
    text = (
        HEAD
        + "\n    @staticmethod\n    def needs_sample(request, num_scheduled):\n"
        + "        if request.num_computed_tokens == 2:\n"
        + textwrap.indent(loop.replace("\n        ", "\n"), " " * 12)
        + "\n        return False\n"
    )
    results = grade_soon(lab, text)
    assert outcomes(results) == [HANG, PASSED, PASSED]
    assert "mine.py:" in results[0].message


def test_a_trace_function_sees_each_line_once_after_a_hang() -> None:
    """Python 3.11 went round and round in the first loop that was traced after one."""

    def hang() -> None:
        with limits(0.05, 0.05), watchdog():
            while True:
                pass

    with pytest.raises(LabHang):
        hang()
    lines = 0

    def count(frame: object, event: str, argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        assert lines < 100
        return count

    def loop() -> None:
        for _ in range(3):
            pass

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        loop()
    finally:
        sys.settrace(before)
    assert 0 < lines < 100


HANGS = """
import sys, time
from labkit.grade import watchdog

class Slow(list):
    def remove(self, watch):
        try:
            super().remove(watch)
        except ValueError:  # all is out; now the other thread has its turn
            time.sleep(0.001)
            raise

def loop():
    for _ in range(3):
        pass

watchdog._watches = Slow()
for number in range(12):
    try:
        with watchdog.watchdog(60 if number % 3 else 0.002), watchdog.watchdog(0.001):
            while True:
                pass
    except watchdog.LabHang:
        pass
    while watchdog._watches or watchdog._next_look[0] < 0:  # the watcher has something to do
        time.sleep(0.001)
    sys.settrace(lambda *_: None)
    loop()
    sys.settrace(None)
"""


def test_no_exception_stays_on_its_way() -> None:
    """Python 3.11 notes for the whole process that one is, and a traced loop then never ends."""
    subprocess.run([sys.executable, "-c", HANGS], cwd=catalog.ROOT, check=True, timeout=60)


def test_endless_recursion_is_named(lab: Lab) -> None:
    text = (
        HEAD
        + "\n    @staticmethod\n    def needs_sample(request, num_scheduled):\n"
        + "        return Scheduler.needs_sample(request, num_scheduled)\n"
    )
    lab.mine.write_text(text)
    message = run_lab(lab, [Part(lab, lab.mine, is_learners=False)])[0].message
    assert "RecursionError" in message
    assert len(message.splitlines()) <= MAX_LINES


def work(seconds: float) -> None:
    """Use so much of the processor's time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def nap(seconds: float, times: int) -> None:
    for _ in range(times):
        time.sleep(seconds)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells code that sleeps from code that waits for a core")
def test_code_that_sleeps_is_ended_long_before_the_backstop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "WALL_TIMES", 1e9)
    with pytest.raises(LabHang), watchdog(0.02):
        nap(0.2, times=100)


@pytest.mark.slow
def test_code_that_sleeps_again_and_again_is_ended_by_the_clock_on_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "WALL_TIMES", 5)
    with pytest.raises(LabHang), watchdog(0.1):
        nap(0.02, times=500)


def test_code_that_runs_is_ended_by_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "WALL_TIMES", 1e9)
    with pytest.raises(LabHang), watchdog(0.05):
        work(10)


def test_the_watchdog_sleeps_under_a_debugger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: "a debugger's trace function")
    with watchdog(0.05):
        work(0.2)


# --- files that cannot be graded ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class Scheduler(:\n    pass\n", ["mine.py:1", "invalid syntax"]),
        (HEAD + "    pass\n", ["mine.py has no Scheduler.needs_sample", "lab reset 99.1"]),
        (HEAD + "\n    @staticmethod\n    def needs_sample(request):\n        pass\n", ["needs_sample(request)"]),
        ("import nowhere\n", ["mine.py:1: ModuleNotFoundError", "could not be loaded"]),
        (
            HEAD + "\n    @staticmethod\n    def needs_sample(request, num_scheduled):\n"
            "        return ReferenceScheduler.needs_sample(request, num_scheduled)\n",
            ["ReferenceScheduler.needs_sample is the reference's answer", "lab diff 99.1"],
        ),
        (
            HEAD + "\n    def needs_sample(self, request, num_scheduled):\n"
            "        return super().needs_sample(request, num_scheduled)\n",
            ["super().needs_sample is the reference's answer"],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_graded_is_said_in_three_lines(lab: Lab, text: str, said: list[str]) -> None:
    lab.mine.write_text(text)
    with pytest.raises(LabkitError) as error:
        Part(lab, lab.mine)
    assert all(part in str(error.value) for part in said), str(error.value)
    assert len(str(error.value).splitlines()) <= 3


def test_a_lab_that_needs_what_is_missing_is_not_graded(lab: Lab) -> None:
    missing = Lab(**{**vars(lab), "needs": ("no_such_package",)})
    (result,) = run_lab(missing, [])
    assert result.outcome == NOT_GRADED
    assert "no_such_package" in result.message


# --- grafting -------------------------------------------------------------------------------------------------------


def test_a_class_stands_in_every_module_that_uses_it(lab: Lab, tmp_path: Path) -> None:
    """The free queue of another owner, down in the pool of the manager of the scheduler."""
    file = tmp_path / "mine.py"
    slot = Slot.parse("mini_vllm.block_pool:FreeKVCacheBlockQueue")
    queue_lab = Lab(**{**vars(lab), "slots": (slot,), "folder": tmp_path})
    file.write_text(source.render_solution(queue_lab).replace("class FreeKV", "COUNT = []\n\n\nclass FreeKV").replace(
        "self.num_free_blocks = 0\n", "self.num_free_blocks = 0\n        COUNT.append(1)\n"))  # fmt: skip
    part = Part(queue_lab, file)
    with grafted([part]):
        manager = KVCacheManager(8, 4)
        assert type(manager.block_pool.free_queue) is part.module.FreeKVCacheBlockQueue
        assert namespace(["mini_vllm.block_pool"]).FreeKVCacheBlockQueue is part.module.FreeKVCacheBlockQueue
    assert part.module.COUNT == [1]
    assert type(KVCacheManager(8, 4).block_pool.free_queue) is FreeKVCacheBlockQueue


def test_helpers_beside_a_slot_come_along(lab: Lab) -> None:
    text = HEAD + (
        "\n    @staticmethod\n    def needs_sample(request, num_scheduled):\n"
        "        return Scheduler._behind(request) == num_scheduled\n"
        "\n    @staticmethod\n    def _behind(request):\n"
        "        return request.num_tokens - request.num_computed_tokens\n"
    )
    assert outcomes(grade(lab, text)) == [PASSED] * 3
    assert not hasattr(Scheduler, "_behind")


SAMPLES = "request.num_tokens - request.num_computed_tokens == num_scheduled"
IMPORTS = "import functools\nfrom mini_vllm.scheduler import Scheduler as ReferenceScheduler\n"
PLAIN_PYTHON = {
    "a base class of one's own": """
class Counting:
    def behind(self, request):
        return request.num_tokens - request.num_computed_tokens

    @staticmethod
    def needs_sample(request, num_scheduled):
        return request.num_tokens - request.num_computed_tokens == num_scheduled

class Scheduler(Counting, ReferenceScheduler):
    def schedule(self):
        assert self.behind(self.waiting[0]) == 3
        return super().schedule()
""",
    "a base class between": """
class Base(ReferenceScheduler):
    @staticmethod
    def needs_sample(request, num_scheduled):
        return True

    def schedule(self):
        self.seen = "Base"
        return super().schedule()

class Scheduler(Base):
    @staticmethod
    def needs_sample(request, num_scheduled):
        return SAMPLES

    def schedule(self):
        output = super().schedule()
        assert self.seen == "Base"
        return output
""",
    "a constructor of one's own": """
class Scheduler(ReferenceScheduler):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.num_steps = 0

    @staticmethod
    def needs_sample(request, num_scheduled):
        return SAMPLES

    def schedule(self):
        self.num_steps += 1
        return super().schedule()
""",
    "super with arguments": """
class Scheduler(ReferenceScheduler):
    def __init__(self, *arguments, **options):
        super(Scheduler, self).__init__(*arguments, **options)

    @staticmethod
    def needs_sample(request, num_scheduled):
        return SAMPLES

    def schedule(self):
        return super(Scheduler, self).schedule()
""",
    "the base called by its name": """
class Scheduler(ReferenceScheduler):
    def __init__(self, *arguments, **options):
        ReferenceScheduler.__init__(self, *arguments, **options)

    @staticmethod
    def needs_sample(request, num_scheduled):
        return SAMPLES

    def schedule(self):
        assert isinstance(self, ReferenceScheduler) and issubclass(type(self), ReferenceScheduler)
        return ReferenceScheduler.schedule(self)
""",
    "decorators": """
def loud(function):
    @functools.wraps(function)
    def called(*arguments):
        return function(*arguments)
    return called

def bare(function):
    return lambda *arguments, **named: function(*arguments, **named)

class Scheduler(ReferenceScheduler):
    @staticmethod
    @loud
    def needs_sample(request, num_scheduled):
        return Scheduler.of(request) == num_scheduled

    @classmethod
    def of(cls, request):
        return request.num_tokens - request.num_computed_tokens

    @property
    def first(self):
        return self.waiting[0]

    @functools.cached_property
    def twice(self):
        return 2 * self.once()

    @functools.cache
    def once(self):
        return 1

    @bare
    def schedule(self):
        assert self.first.request_id == "a" and self.twice == 2
        return super(Scheduler, self).schedule()
""",
    "a class method in place of a static one": """
class Scheduler(ReferenceScheduler):
    @classmethod
    def needs_sample(cls, request, num_scheduled):
        assert cls is Scheduler
        return SAMPLES
""",
    "constants of the class": """
class Scheduler(ReferenceScheduler):
    NONE, __HIDDEN = 0, 1

    @staticmethod
    def needs_sample(request, num_scheduled):
        return request.num_tokens - request.num_computed_tokens - num_scheduled == Scheduler.NONE

    def schedule(self):
        assert (self.NONE, self.__HIDDEN) == (0, 1)
        return super().schedule()
""",
    "what is of one's own class": """
class Scheduler(ReferenceScheduler):
    @staticmethod
    def needs_sample(request, num_scheduled):
        return SAMPLES

    def schedule(self):
        assert isinstance(self, Scheduler) and type(self) is Scheduler
        assert not isinstance(self.waiting, Scheduler)
        return super().schedule()
""",
    "further parameters with a default": """
class Scheduler(ReferenceScheduler):
    @staticmethod
    def needs_sample(request, num_scheduled, *, exactly=True):
        return SAMPLES
""",
    "another class beside it": """
class Box:
    def __init__(self, content):
        super().__init__()
        self.content = content

class Small(Box):
    def __init__(self, content):
        super(Small, self).__init__(content)

class Scheduler(ReferenceScheduler):
    @staticmethod
    def needs_sample(request, num_scheduled):
        return Small(SAMPLES).content
""",
}


@pytest.mark.parametrize("name", PLAIN_PYTHON)
def test_a_part_is_plain_python(lab: Lab, name: str) -> None:
    before = dict(vars(Scheduler))
    text = IMPORTS + PLAIN_PYTHON[name].replace("SAMPLES", SAMPLES)
    assert outcomes(grade(lab, text)) == [PASSED] * 3
    with grafted([Part(lab, lab.mine)]):
        scheduler = make_scheduler({"num_blocks": 9, "block_size": 2, "max_num_seqs": 2, "max_num_batched_tokens": 8})
        scheduler.add_request(Request("a", [1, 2, 3], SamplingParams()))
        assert scheduler.schedule().num_scheduled_tokens == {"a": 3}
    assert dict(vars(Scheduler)) == before


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("__slots__ = ('x',)", "Scheduler.__slots__ cannot be graded, since the objects are made by"),
        ("__new__ = lambda cls: None", "Scheduler.__new__ cannot be graded, since the objects are made"),
        ("def needs_sample(self, request, num_scheduled): pass", "needs_sample is a method of an object, and is"),
        ("needs_sample = property(lambda self: True)", "needs_sample is a property, and is called as Sch"),
        ("def f(self): return isinstance(self, Base)", "isinstance(..., Base) is always False here, "),
    ],
)  # fmt: skip
def test_what_cannot_be_grafted_is_said_in_a_sentence(lab: Lab, body: str, said: str) -> None:
    text = "class Base:\n    pass\n" + RIGHT.replace("(ReferenceScheduler)", "(Base, ReferenceScheduler)")
    lab.mine.write_text(f"{text}\n    {body}\n")
    with pytest.raises(LabkitError, match=re.escape(said)) as error:
        Part(lab, lab.mine)
    assert len(str(error.value).splitlines()) == 1


def test_parts_have_helpers_and_constructors_of_their_own(lab: Lab, tmp_path: Path) -> None:
    """Two labs put different things under one name: each part finds its own, and both constructors run."""
    methods = {"needs_sample": "request, num_scheduled", "_may_admit": "self, request, num_tokens, computed_blocks"}
    parts = []
    for number, (name, parameters) in enumerate(methods.items(), start=1):
        static = "" if parameters.startswith("self") else "@staticmethod"
        text = (
            HEAD
            + f"""
    LIMIT = {number}

    def __init__(self, manager, **options):
        super().__init__(manager, **options)
        self.made = (*getattr(self, "made", ()), {number})

    {static}
    def {name}({parameters}):
        return Scheduler.LIMIT == Scheduler._helper() == {number}

    @staticmethod
    def _helper():
        return {number}
"""
        )
        file = tmp_path / f"part_{number}.py"
        file.write_text(text)
        slot = Slot.parse(f"mini_vllm.scheduler:Scheduler.{name}")
        parts.append(Part(Lab(**{**vars(lab), "slots": (slot,)}), file))
    with grafted(parts):
        scheduler = make_scheduler({"num_blocks": 9, "block_size": 2, "max_num_seqs": 2, "max_num_batched_tokens": 8})
        request = Request("a", [1, 2, 3], SamplingParams())
        assert scheduler.made == (1, 2)  # type: ignore[attr-defined]
        assert scheduler.needs_sample(request, 1) is True
        assert scheduler._may_admit(request, 1, []) is True  # type: ignore[attr-defined]
    assert not hasattr(Scheduler, "LIMIT")


def test_super_is_what_the_reference_extends(lab: Lab) -> None:
    """A method of a subclass calls the one that it overrides, and may: that one is no answer."""
    slot = Slot.parse("mini_vllm.policies.v0.fork:ForkingKVCacheManager.num_blocks_needed")
    head = f"from {slot.module} import {slot.owner} as Reference\n\nclass {slot.owner}(Reference):"
    signature = "\n    def num_blocks_needed(self, request, num_tokens, computed_blocks=()):\n"
    body = "        return super().num_blocks_needed(request, num_tokens, computed_blocks) + 100\n"
    lab.mine.write_text(head + signature + body)
    part = Part(Lab(**{**vars(lab), "slots": (slot,)}), lab.mine)
    request = Request("a", [1, 2, 3], SamplingParams())
    with grafted([part]):
        assert ForkingKVCacheManager(8, 2).num_blocks_needed(request, 3) == 102
        assert KVCacheManager(8, 2).num_blocks_needed(request, 3) == 2
    assert ForkingKVCacheManager(8, 2).num_blocks_needed(request, 3) == 2


# --- decisions beside the reference's ------------------------------------------------------------------------------


@pytest.mark.slow
def test_behaviour_is_compared_step_by_step(lab: Lab) -> None:
    lab.mine.write_text(RIGHT)
    assert "the same decisions" in behaviour.summary([Part(lab, lab.mine)])
    slot = Slot.parse("mini_vllm.scheduler:Scheduler._clamp_new_tokens")
    other = Lab(**{**vars(lab), "slots": (slot,)})
    half = "\n    def _clamp_new_tokens(self, num_new_tokens, token_budget):\n"
    half += "        return min(num_new_tokens, -(-token_budget // 2))\n"
    lab.mine.write_text(HEAD + half)
    said = behaviour.summary([Part(other, lab.mine)])
    assert "other decisions" in said
    assert "The tokens are the same everywhere." in said
    assert len(said.splitlines()) == 5


@pytest.mark.slow
def test_the_scenarios_exercise_every_rule() -> None:
    """Each rule decides something in some: without it the reference itself decides otherwise."""
    counts, preempted = dict.fromkeys(behaviour.RULES, 0), 0
    for scenario in behaviour.scenarios():
        trace = run_trace(scenario)
        preempted += trace["totals"]["preemptions"] > 0
        for rule, (off, _) in behaviour.RULES.items():
            if scenario["config"][rule] != off:
                without = run_trace(scenario | {"config": scenario["config"] | {rule: off}}, max_steps=5_000)
                differs = behaviour.first_differing_step(without["steps"], trace["steps"]) is not None
                counts[rule] += differs
    assert preempted >= 20
    assert min(counts.values()) >= 8, counts


@pytest.mark.slow
def test_what_was_not_exercised_is_said() -> None:
    """The outline of 03.2 asks nobody whether it may admit; and a later lab's part takes an earlier one's place."""
    names = ("03.1:positions", "03.2:by_index", "03.6:early_returns")
    parts = [part_of(catalog.find_lab(name[:4]), f"variant:{name[5:]}") for name in names]
    said = behaviour.summary([part for part in parts if part])
    assert "Not exercised: _clamp_new_tokens of 03.1 (that of lab 03.6 takes its place)." in said
    assert "Not exercised: _may_admit of 03.6 (never called)." in said
    assert "Not exercised: priority, the threshold, the watermark, the reservation, prompts in one piece (03.2" in said
    assert "the same decisions" in said
    lab = catalog.find_lab("03.11")
    fork = Part(lab, lab.stub, is_learners=False)
    assert behaviour.summary([fork]).startswith("Behaviour: nothing of yours was called in the scenarios")


@pytest.mark.slow
def test_the_behaviour_of_a_policy_is_compared_with_that_policy() -> None:
    lab = catalog.find_lab("03.8")
    parts = [part_of(lab, impl) for impl in ("variant:two_halves", "bug:takes_turns")]
    right, wrong = (behaviour.summary([part]) for part in parts if part and behaviour.decides(part))
    assert "the same decisions" in right
    assert "other decisions" in wrong
    assert "The tokens are the same everywhere." in wrong


@pytest.mark.nightly
def test_watchdogs_within_one_another_leave_nothing_behind() -> None:
    """Whichever of them fires, and wherever: every block comes out, and nothing is raised afterwards."""
    rng = random.Random(0)
    for turn in range(150):
        ends = turn % 3  # by itself, if it is not too late; every third turn comes out since one of the two fires
        with suppress(LabHang), watchdog(rng.uniform(0.001, 0.02)):
            for _ in range(rng.randint(1, 4)):
                with suppress(LabHang) if ends else nullcontext(), watchdog(rng.uniform(0.0, 0.01)):
                    work(rng.uniform(0.0, 0.012) if ends else math.inf)
            assert ends
        work(0.003)


# --- break-it labs: the learner's tests -------------------------------------------------------------------------------

SUITE = """
def test_all_blocks_come_back(lab):
    pool = lab.BlockPool(5)
    pool.free_blocks(pool.get_new_blocks(3))
    assert pool.num_free_blocks == 4
"""


@pytest.fixture
def break_it(tmp_path: Path) -> Lab:
    """Lab 02.5 with the learner's file in a folder of its own, and two versions only."""
    real = catalog.find_lab("02.5")
    folder = tmp_path / "phase-02-test" / "labs" / "break-it"
    folder.mkdir(parents=True)
    (folder / "contract.md").write_text("- **I1** a correct engine is green\n- **I2** blocks are counted\n")
    listed = breaking.unpack(real.versions.read_text(encoding="utf-8"))
    wrong = source.render_solution(catalog.find_lab("02.2")).replace("ref_cnt -= 1", "ref_cnt -= 0")
    assert "ref_cnt -= 0" in wrong
    versions = [listed["correct_1"], breaking.Version("I2_1", "02.2", "something is wrong in free_blocks", wrong)]
    (folder / "versions.txt").write_text(breaking.pack(versions))
    (folder / "test_break.py").write_text(
        "from labkit import concept\n"
        "@concept('A correct engine is green.', invariant='I1')\n"
        "def test_green(lab):\n    lab.suite.must_be_green('correct_1')\n"
        "@concept('A lost block is noticed.', invariant='I2')\n"
        "def test_red(lab):\n    lab.suite.must_be_red('I2_1')\n"
    )
    return Lab(**{**vars(real), "folder": folder})


def test_a_suite_is_run_on_correct_and_buggy_versions(break_it: Lab) -> None:
    assert outcomes(grade(break_it, SUITE)) == [PASSED, PASSED]
    blind, overfitted = SUITE.replace("== 4", ">= 0"), SUITE.replace("== 4", "== 5")
    red = grade(break_it, blind)
    assert outcomes(red) == [PASSED, FAILED]
    assert "something is wrong in free_blocks" in red[1].message
    red = grade(break_it, overfitted)
    assert outcomes(red) == [FAILED, FAILED], "what is red on a correct version finds nothing"
    assert "test_all_blocks_come_back is red on it" in red[0].message
    assert "does not count: so it is on correct, version 1" in red[1].message
    assert "mine.py:5: assert pool.num_free_blocks == 5" in red[0].message
    assert "mine.py, 1 test" in red[0].message


def test_a_suite_that_hangs_is_red_and_says_so(break_it: Lab) -> None:
    red = grade_soon(break_it, SUITE.replace("    assert", "    while True: pass\n    assert"))
    assert outcomes(red) == [HANG, FAILED]
    assert "it does not come back from correct, version 1" in red[1].message
    assert "mine.py:5: while True: pass" in red[0].message


def test_runs_of_a_suite_leave_no_modules_behind(break_it: Lab) -> None:
    """Every graft looks at all modules, so those of thousands of runs would slow down each run that follows."""
    grade(break_it, SUITE)
    before = len(sys.modules)
    grade(break_it, SUITE)
    assert len(sys.modules) <= before + 3, "the suite itself and its lab's tests"


WHILE_ONE_IS_HELD = SUITE.replace("    assert", "    while pool.num_free_blocks < 4: pass\n    assert")


def test_not_to_come_back_from_a_buggy_version_is_to_notice(break_it: Lab) -> None:
    assert outcomes(grade_soon(break_it, WHILE_ONE_IS_HELD)) == [PASSED, PASSED]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("RUNS = []\ndef test_x(lab):\n    RUNS.append(1)\n    assert len(RUNS) < 2", "all are green"),
        (
            "def test_x(lab):\n    test_x.runs = getattr(test_x, 'runs', 0) + 1\n    assert test_x.runs < 2",
            "all are green",
        ),
        (
            "from labkit import check as c\ndef test_x(lab):\n    c.n = getattr(c, 'n', 0) + 1\n    assert c.n < 2",
            "does not count: so it is without the mistake",
        ),
        ("import random\ndef test_x(lab):\n    assert random.random() < 0.1", "does not count: so it is on correct"),
        ("import random\ndef test_x(lab):\n    assert random.random() < 0.9", "all are green"),
        ("def test_x(lab):\n    lab.BlockPool.x = 1", "does not count: so it is on correct, version 1"),
        (
            "def test_x(lab):\n    try:\n        assert lab.BlockPool(0)\n    except BaseException:\n        pass",
            "all are green",
        ),
    ],
)
def test_what_finds_nothing(break_it: Lab, text: str, why: str) -> None:
    try:
        red = grade(break_it, text + "\n")
    finally:
        vars(check).pop("n", None)
    assert red[1].outcome == FAILED
    assert why in red[1].message


@pytest.mark.parametrize(
    "line",
    [
        "import inspect",
        "from sys import modules",
        "from labkit.labs.graft import ungrafted",
        "from labkit.grade import breaking",
        "import labkit as us; us.breaking.SECONDS = 9",
        "lab.BlockPool.free_blocks.__code__",
        "getattr(lab, '__module__')",
        "open('versions.txt')",
    ],
)
def test_a_test_may_not_look_at_the_version(break_it: Lab, line: str) -> None:
    with pytest.raises(LabkitError, match="shows what is tested"):
        grade(break_it, f"def test_x(lab):\n    {line}\n")


def test_a_suite_must_have_tests_that_take_the_engine(break_it: Lab) -> None:
    for text, said in [("x = 1\n", "mine.py has no test"), ("def test_x():\n    pass\n", "test_x() must take one")]:
        with pytest.raises(LabkitError, match=re.escape(said)):
            grade(break_it, text)


def test_an_unwritten_suite_is_to_do(break_it: Lab) -> None:
    stub = source.render_stub(catalog.find_lab("02.5"))
    assert outcomes(grade(break_it, stub)) == [TODO, TODO]


@pytest.mark.slow
def test_a_version_may_be_one_of_the_family_of_schedulers(tmp_path: Path) -> None:
    lab = catalog.find_lab("03.12")
    text = """
def test_it(lab):
    scheduler = lab.make_scheduler(num_blocks=9, block_size=2, max_num_seqs=3, max_num_batched_tokens=4)
    assert (type(scheduler).__name__, scheduler.max_num_seqs) == ("WarmFirstScheduler", 3)
"""
    suite = breaking.Suite(lab, Part(lab, tmp_path / "mine.py", text), lambda: namespace_of(lab))
    suite.must_be_green("correct_4")
    with pytest.raises(LabFailure, match="does not count: so it is on correct, version 1"):
        suite.must_be_red("I4_1")
    with pytest.raises(LabFailure, match=r"correct, version 5: v1, with a mistake that is none against these laws: A "):
        suite.must_be_green("correct_5")


# --- labs of debugging ------------------------------------------------------------------------------------------------

FINDING = {"culprit": "mini_vllm.block_pool:BlockPool.touch", "step": 14, "why": "it counts to two"}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"culprit": "mini_vllm.block_pool:BlockPool.free_blocks"},
            "the function at fault: expected one whose mistake",
        ),
        ({"culprit": "mini_vllm.block_pool:BlockPool.tuch"}, "and there is none of that name"),
        ({"culprit": "touch"}, "and there is none of that name"),
        ({"step": 15}, "the step: expected the first one"),
        ({"step": None}, "the step: expected the first one"),
        ({"step": 14.0}, "the step: expected the first one"),
        ({"why": "  "}, "why: expected some words"),
        ({"why": "."}, "why: expected some words"),
        ({"why": 7}, "why: expected some words"),
    ],
)
def test_a_culprit_is_named_with_its_step_and_a_reason(tmp_path: Path, changed: dict[str, object], said: str) -> None:
    lab = catalog.find_lab("02.6")

    def name(answer: dict[str, object]) -> None:
        text = f"CASE_B = {answer!r}\ndef test_x(lab):\n    pass\n"
        breaking.Suite(lab, Part(lab, tmp_path / "mine.py", text), lambda: namespace_of(lab)).must_name("b")

    name(FINDING)
    with pytest.raises(LabFailure, match=said):
        name({**FINDING, **changed})
    with pytest.raises(LabTodo):
        name({**FINDING, "culprit": ""})


@pytest.mark.parametrize("lab_id", ["02.6", "03.14"])
def test_the_evidence_is_what_the_bug_leaves(lab_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    lab = catalog.find_lab(lab_id)
    assert all(evidence.is_current(lab, case) for case in lab.cases)
    assert commands.evidence(lab_id, None) == 0
    told = capsys.readouterr().out
    assert [line[:10] for line in told.splitlines() if line.startswith("---")] == ["--- case a", "--- case b"]
    for known in breaking.unpack(lab.versions.read_text(encoding="utf-8")).values():
        assert not known.config or all(each.rpartition(".")[2] not in told for each in known.config["culprit"])
    with pytest.raises(LabkitError, match="has no case"):
        commands.evidence(lab_id, "c")
    with pytest.raises(LabkitError, match="has no evidence"):
        commands.evidence("02.1", None)


# --- stubs ----------------------------------------------------------------------------------------------------------


def test_stub_and_solution_are_cut_from_the_reference(lab: Lab) -> None:
    stub, solution = source.render_stub(lab), source.render_solution(lab)
    assert 'todo("99.1")' in stub
    assert "num_computed_tokens + num_scheduled" in solution
    assert "num_computed_tokens + num_scheduled" not in stub
    for text in (stub, solution):
        ast.parse(text)
        assert "def needs_sample(request: Request, num_scheduled: int) -> bool:" in text
    assert source.unwritten(ast.parse(stub)) == {"Scheduler.needs_sample"}


def test_every_committed_stub_is_what_the_reference_gives() -> None:
    for each in catalog.labs():
        assert each.stub.read_text(encoding="utf-8") == source.render_stub(each), each.id
        assert not any(char in each.folder.name for char in ' "')


# --- words of the tests ---------------------------------------------------------------------------------------------


def test_check_and_raises() -> None:
    states = iter(["empty", "full"])
    see = check(lambda: next(states))
    see("numbers", (1, 2), equals=[1, 2])
    with pytest.raises(LabFailure) as failure:
        see("blocks", 3, equals=4)
    assert (failure.value.before, failure.value.after) == ("empty", "full")
    with raises(ValueError, "too few blocks are refused"):
        raise ValueError
    said = "too few blocks are refused: expected ValueError is raised"
    with pytest.raises(LabFailure, match=said), raises(ValueError, "too few blocks are refused"):
        pass
    with pytest.raises(LabFailure):
        check()("yes", 1, equals=True)


def test_cases_name_the_runs() -> None:
    @cases(small=1, large=9)
    def test(lab: object, case: int) -> None: ...

    assert test.lab_cases == {"small": 1, "large": 9}  # type: ignore[attr-defined]


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def command(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`lab ...` on the one lab, with its progress file in a folder of its own."""
    phase = catalog.Phase("99", "Test", lab.folder.parent.parent, (lab,))
    monkeypatch.setattr(catalog, "phases", lambda root=None, number="": [phase])
    monkeypatch.setattr(commands, "phases", lambda: [phase])
    for function in (progress.read, progress.record, progress.record_results):
        monkeypatch.setattr(function, "__defaults__", (tmp_path / ".lab" / "progress.json",))

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as exit_:
            cli.main(arguments)
        return int(exit_.value.code or 0)

    return run


def test_the_first_hour(command: Callable[..., int], lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """Status, a red test, hints, a green test, the reference beside it."""
    assert command() == 0
    assert re.search(r"99\.1 .*next", capsys.readouterr().out)
    assert command("test", "99.1") == 1
    said = capsys.readouterr().out
    assert "TODO  99.1" in said
    assert "(2 more are red; `lab test 99.1 --all` explains each)" in said
    assert said.splitlines()[-1].startswith(f"Next: Scheduler.needs_sample in {lab.typed}, then: lab watch 99.1")
    assert command("hint", "99.1") == 0
    assert "Hint 1 of 3 (a question)" in capsys.readouterr().out
    assert command("hint", "99.1") == 0
    assert "Hint 2 of 3 (the invariant)" in capsys.readouterr().out
    assert command("diff", "99.1") == 2
    assert "Lab 99.1 is not done" in capsys.readouterr().err
    lab.mine.write_text(RIGHT)
    assert command("test", "99") == 0
    assert "done, 3 of 3 green" in capsys.readouterr().out
    assert command("diff", "99.1") == 0
    assert "+++ the reference" in capsys.readouterr().out


def test_a_test_that_waits_for_another_function_is_told_last() -> None:
    """So a lab of several functions can be done one by one."""
    lab = catalog.find_lab("03.1")
    stub = source.render_stub(lab)
    for body, outcome, said in [
        ("return token_budget", FAILED, "11 of 43 green, begun; 23 wait for what is not written"),
        ("return min(num_new_tokens, token_budget)", TODO, "19 of 43 green, begun; 24 wait for what is not written"),
    ]:
        text = stub.replace('todo("03.1")', body, 1)
        results = run_lab(lab, [Part(lab, lab.mine, text)])
        nearest = nearest_first(results)[0]
        assert nearest.outcome == outcome
        assert said in one_line(lab, results)
    assert "Scheduler.needs_sample in" in nearest.message


def test_the_watcher_obeys_keys_of_a_terminal(
    command: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pty, termios = pytest.importorskip("pty"), pytest.importorskip("termios")
    hand, terminal = pty.openpty()
    with open(terminal) as stdin, open(hand, "wb"):
        monkeypatch.setattr("sys.stdin", stdin)
        before = termios.tcgetattr(terminal)
        os.write(hand, b"hhdxq")
        assert command("watch", "99.1") == 0
        assert termios.tcgetattr(terminal) == before
    rest, keys = capsys.readouterr().out, "h hint, d diff, n next lab, q quit"
    for said in (keys, "Hint 1 of 3", "Hint 2 of 3", "Lab 99.1 is not done", f"({keys})", f"({keys})"):
        assert said in rest
        rest = rest.partition(said)[2]


def test_diff_shows_what_the_contract_names(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.mine.write_text(RIGHT.replace("request, num_scheduled):", "request, num_scheduled):\n        # mine")
        + "\n    def _helper(self):\n        return 'of mine'\n"
    )  # fmt: skip
    outputs = []
    for whole, side_by_side in ((False, False), (True, False), (False, True)):
        commands.show_beside(lab, source.render_solution(lab), "it", whole=whole, side_by_side=side_by_side)
        outputs.append(capsys.readouterr().out)
    named, whole, columns = outputs
    assert "-        # mine" in named
    assert "of mine" not in named
    assert "In your file: Scheduler._helper." in named
    assert "of mine" in whole
    assert re.search(r"# mine +<|# mine +\|", columns)


@pytest.mark.parametrize(
    "lab_id",
    [
        pytest.param(each.id, marks=() if each.id in ("01.1", "03.2", "04.2") else pytest.mark.slow)
        for each in catalog.labs()
        if not each.is_break_it
    ],
)
def test_what_diff_shows_is_what_the_stub_has(lab_id: str) -> None:
    """No helper of the reference, and of 04.2 less than a third of the file."""
    lab = catalog.find_lab(lab_id)
    text, helpers = beside.of_contract(lab, source.render_solution(lab))
    named = {name for name, _ in source.functions_of(ast.parse(source.render_stub(lab)))}
    shown = {name for name, _ in source.functions_of(ast.parse(text))}
    assert shown <= named
    assert not named & {*helpers}
    assert shown
    if lab_id == "04.2":
        assert 3 * len(text.splitlines()) < len(source.render_solution(lab).splitlines())


def test_diff_shows_the_answer_of_that_stage(
    command: Callable[..., int], lab: Lab, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the whole engine, to which later labs add rules."""
    outline = source.render_solution(lab).replace(">=", "==")
    monkeypatch.setattr(commands, "other_ways", lambda lab: {"outline": Answer(lab, "outline", text=outline)})
    lab.mine.write_text(outline)
    assert command("diff", "99.1", "--give-up") == 0
    assert "Your file is an answer to this lab, letter by letter." in capsys.readouterr().out


@pytest.mark.parametrize(("lab_id", "rule"), [("03.1", "threshold"), ("03.2", "_may_admit"), ("03.3", "priority")])
def test_an_outline_lacks_what_later_labs_add(lab_id: str, rule: str) -> None:
    lab = catalog.find_lab(lab_id)
    assert rule in source.render_solution(lab)
    assert rule not in other_ways(lab)["outline"].code


@pytest.mark.slow
def test_reset_keeps_a_backup_and_adopt_moves_an_edited_stub(
    command: Callable[..., int], lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.mine.write_text("# mine\n")
    assert command("reset", "99.1") == 0
    assert lab.mine.with_name("mine.py.bak1").read_text() == "# mine\n"
    lab.stub.write_text(RIGHT)
    assert command("test", "99.1") == 1
    assert "lab adopt 99.1" in capsys.readouterr().out
    assert command("adopt", "99.1") == 0
    assert lab.mine.read_text() == RIGHT
    assert lab.stub.read_text() == source.render_stub(lab)
    assert command("test", "99.1") == 0


@pytest.mark.slow
def test_grade_for_a_teacher(command: Callable[..., int], lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    lab.mine.write_text(RIGHT)
    assert command("grade", "--json") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["99.1"]["passed"] == report["99.1"]["total"] == 3
    lab.mine.write_text("def broken(:\n")
    assert command("grade", "99.1", "--json") == 1
    assert json.loads(capsys.readouterr().out)["99.1"]["passed"] == 0


@pytest.mark.slow
def test_a_submission_is_graded_with_the_tests_of_this_checkout(
    command: Callable[..., int], lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A submission may have any tests and any grader in it: only its mine.py is read, and nothing is recorded."""
    submission = tmp_path / "submission"
    folder = submission / "phase-99-test" / "labs" / "lab-01"
    folder.mkdir(parents=True)
    assert command("grade", "--json", "--from", str(submission)) == 1
    report = json.loads(capsys.readouterr().out)["99.1"]
    assert (report["handed_in"], report["passed"], report["total"]) == (False, 0, 3)
    (folder / "mine.py").write_text(RIGHT)
    (folder / "test_it.py").write_text("")
    assert command("grade", "--json", "--from", str(submission)) == 0
    assert json.loads(capsys.readouterr().out)["99.1"]["passed"] == 3
    assert not lab.mine.exists()
    assert not (tmp_path / ".lab" / "progress.json").exists()


OLD_DOC = "Whether this step catches up"


def begin_with_an_older_stub(lab: Lab, newline: str = "\n") -> None:
    """A learner wrote the body; since then a release has changed the docstring."""
    older = source.render_stub(lab).replace(OLD_DOC, "Whether it is time")
    assert older != source.render_stub(lab)
    lab.base.parent.mkdir(parents=True)
    lab.base.write_text(older)
    body = "return request.num_computed_tokens + num_scheduled == request.num_tokens  # mine"
    lab.mine.write_text(older.replace('todo("99.1")', body), newline=newline)


@pytest.mark.parametrize("newline", ["\n", pytest.param("\r\n", marks=pytest.mark.slow)], ids=["LF", "CRLF"])
def test_update_merges_a_changed_stub(
    command: Callable[..., int], lab: Lab, capsys: pytest.CaptureFixture[str], newline: str
) -> None:
    begin_with_an_older_stub(lab, newline)
    before = lab.mine.read_bytes()
    command("test", "99.1")
    assert "`lab update 99.1` merges it" in capsys.readouterr().out
    assert command("update") == 0
    assert OLD_DOC in lab.mine.read_text()
    assert "# mine" in lab.mine.read_text()
    assert lab.mine.read_bytes().count(newline.encode()) == lab.mine.read_bytes().count(b"\n")
    assert lab.mine.with_name("mine.py.bak1").read_bytes() == before
    assert command("test", "99.1") == 0
    capsys.readouterr()
    assert command("update") == 0
    assert capsys.readouterr().out == "", "there is nothing to merge twice"


def test_update_leaves_what_the_learner_changed(
    command: Callable[..., int], lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    begin_with_an_older_stub(lab)
    lab.mine.write_text(lab.mine.read_text().replace("Whether it is time", "I understand it so"))
    assert command("update", "99.1") == 0
    said = capsys.readouterr().out
    assert "1 of them touch lines that you changed: yours were left" in said
    assert f'+        """{OLD_DOC}' in said
    assert "I understand it so" in lab.mine.read_text()
    assert "<<<<" not in lab.mine.read_text()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize("call", [("update", "99.1"), ("diff", "99.1", "--give-up")], ids=["update", "diff"])
@pytest.mark.parametrize("kind", ["NUL byte", "a pipe"])
def test_what_is_no_file_of_python_is_refused_by_what_reads_it(
    command: Callable[..., int], lab: Lab, capsys: pytest.CaptureFixture[str], call: tuple[str, ...], kind: str
) -> None:
    begin_with_an_older_stub(lab)
    text = lab.mine.read_bytes()
    lab.mine.unlink()
    if kind == "a pipe":
        os.mkfifo(lab.mine)
    else:
        lab.mine.write_bytes(text + b"\0")
    assert command(*call) == 2
    assert kind in capsys.readouterr().err
    assert not lab.mine.with_name("mine.py.bak1").exists()


def test_a_file_that_python_cannot_read_says_so_and_how_many_tests_there_are(
    command: Callable[..., int], lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.mine.write_text("def broken(:\n")
    assert command("test", "99.1") == 1
    said = capsys.readouterr().out
    assert "mine.py:1: invalid syntax" in said
    assert "the file cannot be graded; the lab has 3 tests" in said
    assert command() == 0
    assert "0 of 3" in capsys.readouterr().out


@pytest.mark.slow
def test_a_file_with_something_written_is_begun(
    command: Callable[..., int], lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    for text, said in [
        (source.render_stub(lab), "0 of 3, not begun"),
        ("\n" + source.render_stub(lab), "0 of 3 green, begun"),
    ]:
        lab.mine.write_text(text)
        assert command("test", "99.1") == 1
        assert said in capsys.readouterr().out


def test_the_next_lab_is_the_first_of_the_phase_that_is_not_done(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = ("91.1", "91.2", "92.1", "92.2", "92.3", "93.1")
    made = [Lab(**{**vars(lab), "id": lab_id}) for lab_id in ids]
    by_phase = [
        catalog.Phase(id_, "", lab.folder, tuple(x for x in made if x.id[:2] == id_)) for id_ in ("91", "92", "93")
    ]
    monkeypatch.setattr(commands, "phases", lambda: tuple(by_phase))
    done: dict[str, dict[str, object]] = {}
    monkeypatch.setattr(progress, "read", lambda: done)
    for finished, following in [
        ("", "91.1"),
        ("92.3", "92.1"),
        ("92.1", "92.2"),
        ("92.2", "93.1"),
        ("93.1", "91.1"),
        ("91.1", "91.2"),
        ("91.2", ""),
    ]:
        if finished:
            done[finished] = {"passed": 3, "total": 3, "when": f"2026-01-01T00:{len(done):02}"}
        found = commands.next_lab()
        assert (found.id if found else "") == following


@pytest.mark.slow
def test_the_phase_of_the_last_minute_goes_on(command: Callable[..., int], lab: Lab, tmp_path: Path) -> None:
    """When a lab was graded is known to the second, so that two phases are seldom graded at one time."""
    command("test", "99.1")
    when = progress.read(tmp_path / ".lab" / "progress.json")["99.1"]["when"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", when)


def test_a_phase_that_cannot_begin_here_is_not_next(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PyTorch a newcomer begins with phase 2, and not in the middle of phase 1."""
    made = [Lab(**{**vars(lab), "id": lab_id}) for lab_id in ("91.1", "91.2", "92.1")]
    by_phase = [catalog.Phase("91", "", lab.folder, tuple(made[:2])), catalog.Phase("92", "", lab.folder, (made[2],))]
    monkeypatch.setattr(commands, "phases", lambda: tuple(by_phase))
    done: dict[str, dict[str, object]] = {}
    monkeypatch.setattr(progress, "read", lambda: done)
    monkeypatch.setattr(commands, "why_not_graded", lambda asked: "no torch" if asked.id == "91.1" else None)
    assert commands.next_lab() is made[2]
    done["92.1"] = {"passed": 3, "total": 3, "when": "2026-01-01T00:00"}
    assert commands.next_lab() is made[1]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with what the labs need, to run pytest and `lab` in. Its progress is its own."""
    isolated.copy_lab(catalog.find_lab("02.1"), tmp_path / "checkout")
    for name in ("conftest.py", "pyproject.toml"):
        (tmp_path / "checkout" / name).symlink_to(catalog.ROOT / name)
    return tmp_path / "checkout"


@pytest.mark.slow
def test_labs_are_graded_in_the_order_in_which_they_are_read(checkout: Path) -> None:
    """And not in that of their folders, in which the lab on tests of one's own is the first."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "phase-02-kv-manager/labs"]
    run = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(checkout)}
    )
    assert re.findall(r"^-+ (0[\d.]+) test", run.stdout, re.MULTILINE) == [f"02.{n}" for n in range(1, 7)]


def answer(lab_id: str) -> str:
    return next(iter(other_ways(catalog.find_lab(lab_id)).values())).code


@pytest.mark.nightly
def test_a_run_of_some_tests_is_never_recorded_as_done(checkout: Path) -> None:
    """The mini-build's first command of phase 2, and then the lab."""
    lab = catalog.find_lab("02.1")
    (checkout / lab.typed).write_text(answer("02.1"))
    recorded = checkout / ".lab" / "progress.json"
    for arguments, has in [(["-k", "first_come or taking_ or test_append"], False), (["-x"], True)]:
        folder = Path(lab.typed).parent.as_posix()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder, *arguments]
        run = subprocess.run(
            command, cwd=checkout, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(checkout)}
        )
        assert run.returncode == 0, run.stdout + run.stderr
        known = json.loads(recorded.read_text())["02.1"]
        assert ("total" in known) == has
        assert progress.is_done("02.1", {"02.1": known}) == has


@pytest.mark.nightly
def test_watch_outlives_every_file_and_goes_on_to_the_next_lab(checkout: Path) -> None:
    mine = checkout / catalog.find_lab("02.1").typed
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "labkit.cli", "watch", "02.1"]
    watch = subprocess.Popen(
        command, cwd=checkout, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert watch.stdout is not None
    try:
        for text, said in [
            (None, "02.1 .* not begun"),
            ("import os\nos._exit(0)\n", r"02.1 .* the file cannot be graded; the lab has \d+ tests"),
            (answer("02.1").replace("def popleft_n(self", "def popleft_n(self, *a):\n        import faulthandler; "
             "faulthandler._sigsegv()\n\n    def other(self"), r"killed by signal 11|cannot be graded"),
            (answer("02.1"), "02.1 .* done"),
            (None, "Watching phase-02-kv-manager/labs/lab-02-block-pool/mine.py"),
        ]:  # fmt: skip
            is_said = threading.Event()
            if text is not None:
                threading.Thread(target=save_until, args=(is_said, mine, text), daemon=True).start()
            found = any(re.search(said, line) for line in watch.stdout)
            is_said.set()
            assert found, f"the watch ended before it said {said}"
    finally:
        watch.terminate()
        watch.wait()


@pytest.mark.slow
def test_a_learner_at_a_terminal(checkout: Path) -> None:
    """Through a pty: a hint, a lab that becomes green, the reference beside it, the next lab, and the end."""
    pty = pytest.importorskip("pty")
    mine = checkout / catalog.find_lab("02.1").typed
    environment = {**os.environ, "PYTHONPATH": str(checkout), "COLUMNS": "100"}
    hand, terminal = pty.openpty()
    command = [sys.executable, "-m", "labkit.cli", "watch", "02.1"]
    watch = subprocess.Popen(command, cwd=checkout, stdin=terminal, stdout=terminal, env=environment)
    os.close(terminal)
    try:
        with open(hand, encoding="utf-8", closefd=False) as screen:
            for keys, text, said in [
                ("", None, "Write FreeKVCacheBlockQueue.__init__ next"),
                ("h", None, "Hint 1 of 3"),
                ("", answer("02.1"), "Done. d shows the reference beside yours; n goes on to 02.2"),
                ("d", None, "The same in vLLM"),
                ("n", None, "Watching phase-02-kv-manager/labs/lab-02-block-pool/mine.py"),
            ]:
                is_said = threading.Event()
                os.write(hand, keys.encode())
                if text is not None:
                    threading.Thread(target=save_until, args=(is_said, mine, text), daemon=True).start()
                found = any(said in line for line in screen)
                is_said.set()
                assert found, f"the watch ended before it said {said}"
            os.write(hand, b"q")
            assert watch.wait() == 0
    finally:
        watch.kill()
        watch.wait()
        os.close(hand)


def save_until(is_said: threading.Event, file: Path, text: str) -> None:
    """Save again and again: the first time may be before the command watches."""
    while not is_said.wait(1):
        file.write_text(text)


def test_an_unknown_lab_is_refused(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert command("test", "77.7") == 2
    assert "There is no lab '77.7'. The labs are 99.1." in capsys.readouterr().err


# --- laws of the package --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_labkit_runs_on_every_system_and_on_the_light_install() -> None:
    """No call that only POSIX has; at import nothing but the standard library, rich, watchfiles and pytest."""
    light = {*sys.stdlib_module_names, "labkit", "mini_vllm", "rich", "watchfiles", "pytest"}
    heavy = {
        "commands.py": {"torch"},
        "runner.py": {"torch"},
        "laws.py": {"torch", "numpy"},
        "executor.py": {"numpy"},
        "mixture.py": {"numpy"},
        "strays.py": {"triton", "numpy"},
    }  # inside functions, for labs that need them
    forbidden = {"SIGALRM", "alarm", "fork", "setitimer", "kill", "getuid", "mkfifo", "symlink"}
    for file in (catalog.ROOT / "labkit").rglob("*.py"):
        if file.name.startswith("test_"):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            allowed = light if node in tree.body else light | heavy.get(file.name, set())
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert all(name.split(".")[0] in allowed for name in names), (file.name, names)
            is_forbidden = isinstance(node, ast.Attribute) and node.attr in forbidden
            assert not is_forbidden or ast.unparse(node) == "self._process.kill", (file.name, node.lineno)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert "/tmp" not in node.value, (file.name, node.lineno)


def test_no_learners_file_is_tracked() -> None:
    tracked = subprocess.run(["git", "ls-files", "*mine.py"], cwd=catalog.ROOT, capture_output=True, text=True)
    assert tracked.stdout == ""


@pytest.mark.slow
def test_a_kernel_out_of_its_tensors_is_named() -> None:
    """A read too far, a write too far, two programs at one place; and the end of a large tensor, which is none."""
    import subprocess

    pytest.importorskip("triton")
    program = textwrap.dedent(
        """
        import torch
        from labkit.kernels.strays import watched
        from mini_vllm.attention.write_kv import write_kv

        def strays(slots, far=0, cut=0):
            key, value = torch.ones(2, 1, 3), torch.ones(2, 1, 3)
            caches = {name: torch.zeros(1, 4, 1, 3) for name in ("key_cache", "value_cache")}
            slots = torch.tensor(slots)
            seen = {"key": key[: 2 - cut], "value": value, "slots": slots}
            with watched(dict.fromkeys(caches, far), **caches, **seen) as found:
                write_kv(key, value, *caches.values(), slots)
            return found, caches["key_cache"].sum().item()

        assert strays([3, 0]) == ([], 6)
        assert strays([3, 4]) == (["program (1, 0) writes number 12 of key_cache, which has 0 to 11"], 3)
        assert strays([3, 0], cut=1) == (["program (1, 0) reads number 3 of key, which has 0 to 2"], 3)
        found, _ = strays([3, 3])
        assert found == ["programs (0, 0) and (1, 0) both write number 9 of key_cache, which has 0 to 11"]
        assert strays([2**33 + 1, 2**33 + 3], far=3 * 2**33) == ([], 6)
        """
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(catalog.ROOT)}
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, env=environment)
