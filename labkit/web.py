"""What a page of the book asks for, in Pyodide: to run a cell, and to grade a lab on the text of an editor.

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

from labkit.catalog import ROOT, LabkitError, find_lab
from labkit.graft import Part
from labkit.runner import FAILED, NO_CONCEPT, Result, read_tests, run_lab

CELL = "cell.py"
WIDTH = 88


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


def grade(lab_id: str, text: str, tell: Callable[[str], object] = str) -> str:
    """Grade a text as a lab's mine.py: a list of results. tell: is told each test's name before it runs.

    A text that cannot be graded is one result, with the reason.
    """
    forget_engine()
    lab = find_lab(lab_id)
    remember_lines(str(lab.mine), text)
    results = []
    try:
        parts = [Part(lab, lab.mine, text)]
        for test in read_tests(lab):
            tell(test.name)
            results += run_lab(lab, parts, [test])
    except LabkitError as error:
        results = [Result(lab.id, "", NO_CONCEPT, FAILED, str(error), 0.0)]
    return json.dumps([{**asdict(result), "concept": result.concept.idea} for result in results])


def remember_lines(name: str, text: str) -> None:
    """For messages and tracebacks, which show lines of what is in no file."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)


def forget_engine() -> None:
    """The next import reads the engine again."""
    for name in [name for name in sys.modules if name.split(".")[0] == "mini_vllm"]:
        del sys.modules[name]
