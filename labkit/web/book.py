"""What a page of the book asks for, in Pyodide: to run a cell, to grade a lab on the text of an editor, and to answer.

Answers are JSON, since nothing else goes to JavaScript unchanged. Every call begins with the engine as it is on disk: a
cell that replaced a part of it leaves nothing behind.
"""

import ast
import contextlib
import json
import linecache
import pprint
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from labkit.grade.messages import explain
from labkit.grade.runner import FAILED, HANG, NO_CONCEPT, NOT_RUN, Result, Test, read_tests, run_lab, seconds_for
from labkit.grade.watchdog import LabHang
from labkit.labs.catalog import ROOT, Lab, LabkitError, find_lab, labs
from labkit.labs.graft import Part
from labkit.web.conversation import Conversation
from labkit.web.words import in_a_page

CELL = "cell.py"
WIDTH = 88
SECONDS = 10.0  # of a test, by the clock: a browser does not say how long a worker has run
LOADING = "the file itself"  # in the place of a test's name


def run_cell(text: str) -> str:
    """Run a cell as a notebook would: {"trace"} or {"text"} of its last expression, or {"error"}."""
    forget_engine()
    remember_lines(CELL, text)
    names = {"__name__": "__main__"}
    try:
        tree = compile(text, CELL, "exec", flags=ast.PyCF_ONLY_AST)
        assert isinstance(tree, ast.Module)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        exec(compile(tree, CELL, "exec"), names)
        value = eval(compile(ast.Expression(last.value), CELL, "eval"), names) if isinstance(last, ast.Expr) else None
        return json.dumps(shown(value))
    except BaseException as error:
        own = error.__traceback__.tb_next if error.__traceback__ else None  # without the line above that ran it
        report = traceback.format_exception(error.with_traceback(own))
        return json.dumps({"error": "".join(report).replace(f"{ROOT.as_posix()}/", "")})


def shown(value: Any) -> dict[str, Any]:
    """A trace as it is, to be drawn; anything else as text."""
    if isinstance(value, dict) and "steps" in value:
        with contextlib.suppress(TypeError):
            json.dumps(value)
            return {"trace": value}
    if value is None:
        return {}
    return {"text": pprint.pformat(value, width=WIDTH, compact=True, sort_dicts=False)}


def grade(
    lab_id: str,
    text: str,
    only: str = "",
    hung: str = "",
    tell: Callable[[str, float], object] = lambda name, seconds: None,
) -> str:
    """Grade a text as a lab's mine.py: a list of results. A text that cannot be graded is one result, with the reason.

    only: the test functions that are run, if not all; hung: the test that did not come back when the text was graded
    before, so it and what follows it are not run; tell: is told each test's name before it runs, and how many seconds
    it may take.
    """
    forget_engine()
    lab = find_lab(lab_id)
    remember_lines(str(lab.mine), text)
    results = []
    try:
        tell(LOADING, SECONDS)
        if hung == LOADING:
            raise LabkitError(f"{lab.mine.name} does not come to its end when it is loaded.")
        parts = [Part(lab, lab.mine, text)]
        tests = [test for test in read_tests(lab) if not only or test.function.__name__ in only.split()]
        names = [test.name for test in tests]
        num_run = names.index(hung) if hung in names else len(tests)
        for test in tests[:num_run]:
            tell(test.name, max(SECONDS, seconds_for(lab, hung=False)))
            results += run_lab(lab, parts, [test])
        results += [not_run(lab, test, parts[0], hung) for test in tests[num_run:]]
    except LabkitError as error:
        results = [Result(lab.id, "", NO_CONCEPT, FAILED, str(error), 0.0)]
    return json.dumps(
        [{**asdict(each), "concept": each.concept.idea, "message": in_a_page(each.message)} for each in results]
    )


def not_run(lab: Lab, test: Test, part: Part, hung: str) -> Result:
    """The result of the test that hung, or of one after it."""
    if test.name != hung:
        return Result(lab.id, test.name, test.concept, NOT_RUN, f"{hung} did not come back.", 0.0)
    message = explain(LabHang(), test.concept, lab, part).replace("; it was at \n", "\n")  # a page sees no line
    return Result(lab.id, test.name, test.concept, HANG, message, 0.0)


def converse(texts: str) -> Conversation:
    """A conversation that lasts until the next call of this module. texts: of a learner's labs, by id, as JSON."""
    forget_engine()
    given = json.loads(texts)
    for lab_id, text in given.items():
        remember_lines(str(find_lab(lab_id).mine), text)
    return Conversation(given)


def remember_lines(name: str, text: str) -> None:
    """For messages and tracebacks, which show lines of what is in no file."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def forget_engine() -> None:
    """The next import reads the engine again, and what the tests of labs see of labkit, which holds parts of it."""
    seen = {module for lab in labs() for module in lab.modules}
    for name in [name for name in sys.modules if name.split(".")[0] == "mini_vllm" or name in seen]:
        del sys.modules[name]
