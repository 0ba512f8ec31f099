"""Files that do nothing right, and change what judges them for a while: each is red, and told that it does so.

All are wrong answers to lab 05.5. What they change stands as it was before the grader looks: an object that dies puts
it back, or a thread, a finaliser, the garbage collector. By day three of them are tried.
"""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from labkit.grade import isolated
from labkit.grade.intact import has_numbers
from labkit.grade.runner import PASSED
from labkit.labs.catalog import ROOT, LabkitError, find_lab
from labkit.labs.graft import Part
from labkit.labs.implementations import other_ways
from labkit.labs.source import render_solution

LAB = find_lab("05.5")
pytestmark = pytest.mark.skipif(not has_numbers(), reason="this Python does not count changes of a dictionary")


class Forgery(NamedTuple):
    """change and put_back: statements; says: what is told; how it is put back: statements of __init__ and __del__."""

    change: str
    put_back: str
    says: str
    top: str = ""
    at_once: str = "change()"
    at_the_end: str = "put_back()"

    @property
    def text(self) -> str:
        parts = (self.change, self.put_back, self.at_once, self.at_the_end)
        change, put_back, at_once, at_the_end = (textwrap.indent(part, " " * 8)[4:] for part in parts)
        return (
            "import builtins, contextlib, functools, gc, operator, random, sys, threading, time, weakref\n"
            "from labkit import todo\nW, S = (sys.modules['labkit.testing.' + name] for name in ('words', 'search'))\n"
            f"{self.top}\nfail, same = W.Check.fail, W.same\n"
            f"def change():\n    {change}\ndef put_back():\n    {put_back}\n"
            "class Pace:\n    def __init__(self, most):\n"
            f"        {at_once[4:]}\n"
            "    def next_length(self): return 0\n    def learn(self, num_drafts, num_accepted): pass\n"
            f"    def __del__(self):\n        {at_the_end[4:]}\n"
        )


CHECK = "W.Check.fail = lambda self, *a: None\nS.same = lambda *a: True", "W.Check.fail, S.same = fail, same"
SAYS_CHECK = r"changes labkit\.testing\.(words\.Check|search) for a while"
FORGERIES = {
    # who puts it back
    "an_object_that_dies": Forgery(*CHECK, SAYS_CHECK),
    "a_call": Forgery(*CHECK, SAYS_CHECK, at_once="change(); put_back()", at_the_end="pass"),
    "a_finaliser": Forgery(*CHECK, SAYS_CHECK, at_once="change(); weakref.finalize(self, put_back)", at_the_end="pass"),
    "a_thread": Forgery(
        *CHECK, SAYS_CHECK, at_once="change(); threading.Thread(target=put_back).start()", at_the_end="pass"
    ),
    "the_garbage_collector": Forgery(
        *CHECK,
        SAYS_CHECK,
        top="gc.callbacks.append(lambda phase, info: put_back() if phase == 'stop' else change())",
        at_once="gc.collect()",
        at_the_end="pass",
    ),
    "a_part_of_setattr": Forgery(  # no code of the file runs when it is put back
        *CHECK,
        SAYS_CHECK,
        top="class Later:\n    __del__ = functools.partial(setattr, W.Check, 'fail', W.Check.fail)",
        at_once="change(); self.later = Later(); S.same = same",
        at_the_end="pass",
    ),
    "while_it_is_loaded": Forgery(*CHECK, SAYS_CHECK, top="W.Check.x = 1\ndel W.Check.x", at_once="pass"),
    # what is changed
    "builtins": Forgery(
        "builtins.isinstance, builtins.list = lambda *a: True, lambda *a: []",
        "builtins.isinstance, builtins.list = is_instance, list_of",
        "changes builtins for a while",
        top="is_instance, list_of = isinstance, list",
    ),
    "a_context_manager": Forgery(
        "C.__exit__ = lambda *a: True",
        "C.__exit__ = leave",
        r"changes contextlib\._GeneratorContextManager for a while",
        top="C = contextlib._GeneratorContextManager\nleave = C.__exit__",
    ),
    "the_random_numbers": Forgery(
        "random.Random.random = lambda self: 1.0",
        "del random.Random.random",
        r"changes random\.Random for a while",
    ),
    "the_clock": Forgery(
        "time.process_time = lambda: 0.0",
        "time.process_time = clock",
        "changes time for a while",
        top="clock = time.process_time",
    ),
    "an_operator": Forgery(
        "operator.eq = lambda *a: True", "operator.eq = eq", "changes operator for a while", top="eq = operator.eq"
    ),
    "the_engine": Forgery(
        "P.verify = 1",
        "del P.verify",
        r"changes mini_vllm\.spec_decode\.proposers for a while",
        top="P = sys.modules['mini_vllm.spec_decode.proposers']",
    ),
    "the_reference": Forgery(
        "P.NgramProposer.propose = lambda *a: []",
        "P.NgramProposer.propose = propose",
        r"changes mini_vllm\.spec_decode\.proposers\.NgramProposer for a while",
        top="P = sys.modules['mini_vllm.spec_decode.proposers']\npropose = P.NgramProposer.propose",
    ),
    "the_code_of_a_function": Forgery(
        "W.Check.fail.__code__ = (lambda self, what, expected, got: None).__code__",
        "pass",
        "may not change __code__ of fail",
    ),
    # what leads there
    "globals_of_a_function": Forgery(
        "G['same'] = lambda *a: True",
        "G['same'] = same",
        r"changes labkit\.testing\.words for a while",
        top="G = getattr(todo, '__glo' + 'bals__')",
    ),
    "subclasses": Forgery(
        "K.fail = lambda self, *a: None",
        "K.fail = fail",
        r"changes labkit\.testing\.words\.Check for a while",
        top="K = next(k for k in getattr(object, '__sub' + 'classes__')() if k.__name__ == 'Check')",
    ),
    "the_text_says_so": Forgery("todo.__globals__['same'] = len", "pass", "__globals__ leads to what grades"),
    "an_import": Forgery(*CHECK, r"labkit\.testing leads to what grades", top="import labkit.testing as T"),
    "a_name_of_labkit": Forgery(*CHECK, r"labkit\.Check leads to what grades", top="import labkit\nlabkit.Check"),
    "the_tests": Forgery(  # no import finds them, so it gets nothing
        "for name in [name for name in sys.modules if 'test_' in name and 'labkit' in name]:\n"
        "    sys.modules[name].check = lambda *a: lambda *a, **k: None",
        "pass",
        "expected",
    ),
    "what_is_grafted": Forgery(  # an import gives a copy, in which nothing is grafted
        "G._swaps[:] = []",
        "pass",
        "expected",
        top="import importlib\nG = importlib.import_module('labkit.labs.graft')",
    ),
    "a_trace_function": Forgery("sys.settrace(lambda *a: None)", "pass", "may not look at the code that runs it"),
    "a_search_by_what_it_returns": Forgery(  # in the middle of a test, which may search
        "pass", "pass", "may not look", top="class N(int):\n    __eq__ = gc.get_referrers",
        at_once="self.next_length = lambda: N(1)",
    ),
}  # fmt: skip


def red_of(text: str, folder: Path) -> list[str]:
    """The messages of a file that is graded as lab 05.5."""
    (file := folder / LAB.typed).parent.mkdir(parents=True)
    file.write_text(text)
    return [result.message for result in isolated.grade(LAB, file) if result.outcome != PASSED]


def marked(cases: Collection[str], by_day: Collection[str]) -> list[Any]:
    return [pytest.param(name, marks=() if name in by_day else pytest.mark.slow) for name in cases]


@pytest.mark.parametrize("name", marked(FORGERIES, {"an_object_that_dies", "builtins", "globals_of_a_function"}))
def test_what_changes_the_grader_for_a_while_is_red(name: str, tmp_path: Path) -> None:
    case = FORGERIES[name]
    messages = red_of(case.text, tmp_path)
    assert len(messages) > 15
    assert re.search(case.says, "\n".join(messages)), messages[0]


@pytest.mark.slow
def test_pytest_does_not_let_a_file_into_its_process(tmp_path: Path) -> None:
    """Neither when it is loaded nor in a test."""
    isolated.copy_lab(LAB, checkout := tmp_path / "checkout")
    for name in ("conftest.py", "pyproject.toml"):
        (checkout / name).symlink_to(ROOT / name)
    top = "print(sys.modules.get('pytest'), file=sys.stderr)"
    (checkout / LAB.typed).write_text(Forgery(*CHECK, "", top=top).text)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(Path(LAB.typed).parent)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    run = subprocess.run(command, cwd=checkout, capture_output=True, text=True, env=environment)
    assert run.returncode == 1
    assert re.search(r"\b0 of \d+ green", run.stdout)
    assert "changes labkit.testing" in run.stdout
    assert "None" in run.stderr
    assert "module" not in run.stderr


# --- the reference's answer under another name ------------------------------------------------------------------------

BORROWED = {  # P is the module of the reference; each is a class Pace, or brings a function make() to the one below
    "an_empty_subclass": "class Pace(P.Pace): pass",
    "a_subclass_that_hands_on": "class Pace(P.Pace):\n    def __init__(self, most): P.Pace.__init__(self, most)",
    "the_class_itself": "Pace = P.Pace",
    "importlib": "import importlib\nclass Pace(importlib.import_module(P.__name__).Pace): pass",
    "the_modules": "import sys\nclass Pace(getattr(sys.modules[P.__name__], 'Pa' + 'ce')): pass",
    "its_methods": "class Pace: __init__, learn, next_length = P.Pace.__init__, P.Pace.learn, P.Pace.next_length",
    "bound_methods": (
        "class Pace:\n    def __init__(self, most): pass\n    one = P.Pace(4)\n"
        "    next_length, learn = one.next_length, one.learn"
    ),
    "copies_of_its_code": (
        "import types\nclass Pace: pass\nfor name in ('__init__', 'learn', 'next_length'):\n"
        "    setattr(Pace, name, types.FunctionType(getattr(P.Pace, name).__code__, vars(P)))"
    ),
    "a_copy_of_the_class": "Pace = type('Pace', (), dict(vars(P.Pace)))",
    "a_partial": "import functools\nmake = functools.partial(P.Pace)",
    "a_function_around_it": "def near(kind):\n    return lambda most: kind(most)\nmake = near(P.Pace)",
    "a_default": "def make(most, kinds=[P.Pace]): return kinds[0](most)",
    "an_attribute": "def make(most): return make.kind(most)\nmake.kind = P.Pace",
}
HANDS_ON = """
class Pace:
    def __init__(self, most): self.pace = make(most)
    def next_length(self): return self.pace.next_length()
    def learn(self, num_drafts, num_accepted): self.pace.learn(num_drafts, num_accepted)
"""
AGAIN = {
    "reload": "import importlib\ndef make(most): return importlib.reload(P).Pace(most)",
    "its_file": (
        "import importlib.util as u\ndef make(most):\n    s = u.spec_from_file_location('x', P.__file__)\n"
        "    m = u.module_from_spec(s)\n    s.loader.exec_module(m)\n    return m.Pace(most)"
    ),
}
BORROWED_FUNCTIONS = {
    "05.2": "import functools, mini_vllm.spec_decode.verify as V\n@functools.wraps(V.accept)\n"
    "def accept(*a, f=V.accept): return f(*a)",
    "02.3": "from mini_vllm.kv_cache import KVCacheManager as K\nfind = getattr(K, 'get_' + 'computed_blocks')\n"
    "class KVCacheManager(K):\n    def get_computed_blocks(self, request): return find(self, request)\n"
    "    def _block_hashes(self, request): return []",
}


@pytest.mark.parametrize("name", BORROWED)
def test_what_is_borrowed_is_told(name: str, tmp_path: Path) -> None:
    text = f"import mini_vllm.spec_decode.proposers as P\n{BORROWED[name]}\n"
    with pytest.raises(LabkitError, match=r"Pace\S* is the reference's answer to this lab"):
        Part(LAB, tmp_path / "mine.py", text + (HANDS_ON if "make" in text else ""))


@pytest.mark.parametrize("lab_id", BORROWED_FUNCTIONS)
def test_a_borrowed_function_is_told(lab_id: str, tmp_path: Path) -> None:
    with pytest.raises(LabkitError, match="is the reference's answer to this lab"):
        Part(find_lab(lab_id), tmp_path / "mine.py", BORROWED_FUNCTIONS[lab_id])


@pytest.mark.slow
@pytest.mark.parametrize("name", AGAIN)
def test_the_engine_is_not_loaded_a_second_time(name: str, tmp_path: Path) -> None:
    text = f"import mini_vllm.spec_decode.proposers as P\n{AGAIN[name]}\n{HANDS_ON}"
    assert re.search("may not load a module of the engine again|changes mini_vllm", "\n".join(red_of(text, tmp_path)))


@pytest.mark.parametrize(
    "lab_id",
    marked(["01.6", "02.1", "02.4", "03.2", "03.13", "04.1", "04.2", "05.1", "05.2", "05.5"], {"01.6", "05.5"}),
)
def test_no_right_answer_is_taken_for_a_borrowed_one(lab_id: str, tmp_path: Path) -> None:
    lab = find_lab(lab_id)
    for text in (render_solution(lab), *(answer.code for answer in other_ways(lab).values())):
        Part(lab, tmp_path / "mine.py", text)
