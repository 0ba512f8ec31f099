#!/usr/bin/env python3
"""P5 of the labs: automatic mutants of every answer, and which of them no test of the lab notices.

    python tools/mutation/lab_mutants.py [lab ids]

The mutations are mutmut's, one at a time, in the bodies of the functions that a learner writes (and of the helpers that
belong to the answer). The lab's tests run on each in labkit's runner, up to the first red one; on what they leave,
those of the phase's other labs, since a slot may belong to two labs and the finer rules have one of their own. Triton
kernels are left out: what a small change of a tile does is proved by seeded bugs. So are changes of what only a person
reads, and of what only guards the answer itself: the texts of errors and assertions, and zip's `strict`. survivors.md
gives a reason for each that is left; one that begins with "equivalent" says that no test could tell the two apart, and
such a mutant does not count. Exit status 1 if less than MIN_KILLED of the other mutants of a lab die, or if one
survives without a reason.
"""

import ast
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import libcst as cst
from mutmut.mutation.mutators import mutation_operators

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from labkit.grade.runner import PASSED, Test, prepare, read_tests, run_test
from labkit.labs import source
from labkit.labs.catalog import C_COMPILER, Lab, LabkitError, find_lab, labs, phases
from labkit.labs.graft import Part

MIN_KILLED = 0.95
SECONDS = 2.0  # for one test
SURVIVORS = Path(__file__).with_name("survivors.md")


class Outcome(NamedTuple):
    """What became of a lab's mutants; survivors: each change as `before` -> `after`."""

    lab_id: str
    num_mutants: int
    num_found_elsewhere: int  # by the tests of another lab only
    survivors: list[str]


class Collector(cst.CSTVisitor):
    """The changes that mutmut would make inside function bodies: not to annotations, defaults and decorators."""

    def __init__(self) -> None:
        self.depth = 0
        self.found: list[tuple[cst.CSTNode, cst.CSTNode]] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation | cst.Decorator | cst.Parameters):
            return False
        if isinstance(node, cst.FunctionDef):
            self.depth += 1
        elif self.depth:
            for kind, operator in mutation_operators:
                if isinstance(node, kind):
                    self.found += [(node, mutated) for mutated in operator(node)]
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, cst.FunctionDef):
            self.depth -= 1


def mutants(text: str) -> Iterator[tuple[str, str]]:
    """(the change in words, the whole text) for each mutant that differs as a program."""
    module = cst.parse_module(text)
    collector = Collector()
    module.visit(collector)
    for old, new in collector.found:
        mutated = module.deep_replace(old, new)
        assert isinstance(mutated, cst.Module)
        if not same_program(text, mutated.code):
            yield change(text, mutated.code), mutated.code


def same_program(one: str, other: str) -> bool:
    """Whether two programs do the same, but for what they say and how they guard themselves."""
    one_tree, other_tree = (ast.dump(Unsaid().visit(ast.parse(text))) for text in (one, other))
    return one_tree == other_tree


class Unsaid(ast.NodeTransformer):
    """Takes out the texts of errors and assertions, and zip's `strict`, which no right answer runs into."""

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.msg = None
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc.args = [each for each in node.exc.args if not is_text(each)]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == "zip":
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != "strict"]
        return self.generic_visit(node)


def is_text(node: ast.expr) -> bool:
    """Whether it is a text, or None, which stands for one that a mutation took away."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | None))


def change(before: str, after: str) -> str:
    """The lines that differ, as `before` -> `after`; with the line above if they are one word, such as break."""
    old, new = before.splitlines(), after.splitlines()
    start = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    end = next((i for i, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b), 0)
    start -= len(old[start : len(old) - end]) == 1 and len(old[start].split()) == 1
    lines = [
        " ".join(" ".join(line.split("  # ")[0] for line in each[start : len(each) - end]).split()).replace("|", "\\|")
        for each in (old, new)
    ]
    return f"`{lines[0]}` -> `{lines[1]}`"


def kill(lab_id: str) -> Outcome:
    """Run the tests on every mutant of a lab's answer."""
    lab = find_lab(lab_id)
    (phase,) = [phase for phase in phases() if lab in phase.labs]
    others = [other for other in phase.labs if other.slots and other != lab and is_python(other)]
    prepare(lab)
    own = [(lab, test) for test in read_tests(lab)]
    elsewhere = [(other, test) for other in others for test in read_tests(other)]
    survivors, count, found_elsewhere = [], 0, 0
    for words, text in mutants(source.render_solution(lab)):
        count += 1
        try:
            part = Part(lab, Path("mutant.py"), text, is_learners=False)
        except LabkitError:
            continue  # it cannot even be loaded
        if dies(part, own):
            continue
        if dies(part, elsewhere):
            found_elsewhere += 1
        else:
            survivors.append(words)
    return Outcome(lab_id, count, found_elsewhere, survivors)


def is_python(lab: Lab) -> bool:
    """Whether what a learner writes is Python that a mutant may be made of."""
    return not {"triton", C_COMPILER} & {*lab.needs}


def dies(part: Part, tests: list[tuple[Lab, Test]]) -> bool:
    """Whether a test is red on this part; the one that was goes to the front, since it may find the next one, too."""
    for index, (lab, test) in enumerate(tests):
        outcome = run_test(lab, [part], test, SECONDS).outcome
        if outcome != PASSED:
            tests.insert(0, tests.pop(index))
            return True
    return False


def reasons() -> dict[tuple[str, str], str]:
    """The table: (lab, change) to the reason why it may survive."""
    found: dict[tuple[str, str], str] = {}
    for line in SURVIVORS.read_text(encoding="utf-8").splitlines() if SURVIVORS.exists() else []:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and re.fullmatch(r"\d\d\.\d+", cells[0]) and cells[2]:
            found[cells[0], cells[1]] = cells[2]
    return found


def main() -> int:
    """Print a line for each lab and for each survivor; the exit status."""
    of_python = [lab.id for lab in labs() if lab.slots and is_python(lab)]
    if others := [lab_id for lab_id in sys.argv[1:] if lab_id not in of_python]:
        sys.exit(f"{', '.join(others)}: no answer in Python that could be mutated; there are {', '.join(of_python)}")
    ids = sys.argv[1:] or of_python
    known, status, total, dead = reasons(), 0, 0, 0
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for outcome in pool.map(kill, ids):
            why = [known.get((outcome.lab_id, words), "") for words in outcome.survivors]
            equivalent = sum(reason.startswith("equivalent") for reason in why)
            killed, count = outcome.num_mutants - len(outcome.survivors), outcome.num_mutants - equivalent
            total, dead = total + count, dead + killed
            print(
                f"{outcome.lab_id}  {outcome.num_mutants:3} mutants, {equivalent} equivalent; {killed} of {count} die "
                f"({killed / count:.1%}), {outcome.num_found_elsewhere} of them by another lab's tests only",
                flush=True,
            )
            status |= killed < MIN_KILLED * count or not all(why)
            for words, reason in zip(outcome.survivors, why, strict=True):
                print(f"      {words}: {reason or 'NO REASON GIVEN'}", flush=True)
    print(f"{dead} of {total} die ({dead / total:.1%})")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
