"""The laws for one lab, P1 to P13, in the process of the proof."""

import ast
import difflib
import hashlib
import json
import os
import random
import re
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from labkit.grade.breaking import unpack, versions_of
from labkit.grade.messages import MAX_LINES
from labkit.grade.runner import FAILED, HANG, PASSED, TODO, Result, prepare, read_tests, run_lab, why_not_graded
from labkit.grade.watchdog import limits
from labkit.labs import source
from labkit.labs.catalog import SYMBOLS, Lab, LabkitError, find_lab
from labkit.labs.graft import Part
from labkit.labs.implementations import Answer, other_ways, reference_parts, seeded_bugs
from labkit.prove.inputs import Recorder
from labkit.testing import words as testing

MIN_BUGS, MIN_VARIANTS = 6, 2
HANGS_AFTER, BEHIND_A_HANG = 1.0, 0.1  # seconds of the processor for a test of a seeded bug
INTERPRETED = 3.0  # the same for a kernel, which Triton interprets
HINT_RUN = 8
BUILT_IN = {name for kind in (list, dict, set, tuple, str, int, float, range, random.Random) for name in dir(kind)}
LABKIT_NAMES = {
    "reference",
    "draw",
    "drive",
    "timeline",
    "yours",
    "read_trace",
    "suite",
    "must_be_green",
    "must_be_red",
    "must_name",
    "true",
    "between",
    "fail",
    "blocks",
    "queue",
    "scheduler",
    "scheduled",
    "preempted",
    "finished",
}

Entry = Mapping[str, Any]  # of the lock, for one lab


@dataclass
class Proof:
    """What was found out about one lab. broken: one sentence for each law that does not hold."""

    lab_id: str
    title: str
    num_tests: int = 0
    num_bugs: int = 0  # seeded ones that there are; red has those that were tried
    red: dict[str, list[str]] = field(default_factory=dict)  # bug: the tests that find it
    messages: dict[str, str] = field(default_factory=dict)  # bug: what a learner reads
    by_chance: set[str] = field(default_factory=set)  # bugs that no two runs need find by the same tests
    variants: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    note: str = ""

    def hashes(self) -> dict[str, list[str]]:
        """Of each bug: the tests that find it, and what a learner reads; nothing for what is left to chance."""
        lab, found = find_lab(self.lab_id), {}
        for name, message in self.messages.items():
            functions = sorted({test.partition("[")[0] for test in self.red[name]})
            hashes = [short_hash("\n".join(functions)), short_hash(without_values(lab, message))]
            found[name] = [] if name in self.by_chance else hashes
        return found


def prove(lab_id: str, locked: Entry | None = None, chosen: Collection[str] | None = None) -> Proof:
    """All laws for one lab, in a process of its own. chosen: the seeded bugs to try, by default all."""
    recorder = Recorder()
    warnings.simplefilter("ignore", SyntaxWarning)  # a seeded bug asserts a pair, for instance
    lab = find_lab(lab_id)
    proof = Proof(lab.id, lab.title)
    if reason := why_not_graded(lab):
        proof.note = reason
        return proof
    try:
        prepare(lab)
        proof.num_tests = len(read_tests(lab))
        with patch.dict(os.environ, NIGHTLY=""):  # what is read for a bug has the sizes of every day
            found = list(prove_bugs(lab, proof, chosen))
            if chosen is not None and moved(proof, locked or {}):  # one bug no longer stands for the bugs left out
                found = list(prove_bugs(lab, proof, None))
        proof.broken = [
            *prove_reference(lab),
            *prove_stub(lab),
            *prove_tests(lab),
            *prove_hints(lab),
            *prove_citations(lab),
            *found,
            *prove_variants(lab, proof),
        ]
    except LabkitError as error:
        proof.broken.append(str(error))
    proof.inputs = recorder.inputs()
    if locked is not None and (unlisted := set(proof.inputs) - set(locked["inputs"])):
        proof.broken.append(f"proof/lock.json does not list {', '.join(sorted(unlisted)[:3])}; --write does")
    return proof


def prove_reference(lab: Lab) -> Iterator[str]:
    """P1, and that every test reaches an expectation (P7)."""
    parts = reference_parts(lab)
    for test in read_tests(lab):
        with patch.object(testing.Check, "compared") as counted:
            (result,) = run_lab(lab, parts, [test])
        if result.outcome != PASSED:
            yield f"P1 {test.name} is red on the reference:\n{result.message}"
        elif not counted.called:
            yield f"P7 {test.name} reaches no expectation"


def prove_stub(lab: Lab) -> Iterator[str]:
    """P2 and P8."""
    if lab.stub.read_text(encoding="utf-8") != source.render_stub(lab):
        yield "P8 stub.py is not what the reference gives; python tools/make_stubs.py makes it"
        return
    if lab.is_break_it and list(unpack(lab.versions.read_text(encoding="utf-8")).values()) != list(versions_of(lab)):
        yield "P8 versions.txt is not what proof/versions.toml lists; python tools/make_stubs.py makes it"
    for case in lab.cases:
        from labkit.labs.evidence import is_current  # the other labs do not depend on what it imports

        if not is_current(lab, case):
            yield f"P8 the evidence of case {case} is not what its bug leaves; python tools/make_stubs.py makes it"
    for result in run_lab(lab, [Part(lab, lab.stub)]):
        if result.outcome != TODO:
            yield f"P2 {result.test} on the untouched stub: {result.outcome}, not {TODO}"


def prove_tests(lab: Lab) -> Iterator[str]:
    """P7: names, concepts, invariants, imports."""
    contract = (lab.folder / "contract.md").read_text(encoding="utf-8")
    allowed = {name for quoted in re.findall(r"`([^`]+)`", contract) for name in re.findall(r"\w+", quoted)}
    for test in read_tests(lab):
        if test.concept.invariant not in lab.invariants:
            yield f"P7 {test.name}: contract.md has no invariant {test.concept.invariant}"
    for file in sorted(lab.folder.glob("test_*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        strings = {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        if laws := {text for text in strings if re.fullmatch(r"I\d+", text)} - lab.invariants.keys():
            yield f"P7 {file.name}: contract.md has no invariant {', '.join(sorted(laws))}"
        own = set(names_made_by(tree))
        touched = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if unknown := touched - allowed - BUILT_IN - LABKIT_NAMES - own - names_of_libraries(lab):
            yield f"P7 {file.name} touches {', '.join(sorted(unknown))}, which contract.md does not name"


def names_made_by(tree: ast.Module) -> Iterator[str]:
    """Functions, classes, fields and attributes that a test file itself makes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def names_of_libraries(lab: Lab) -> set[str]:
    """What torch and NumPy bring: no names of the engine."""
    if "torch" not in lab.needs:
        return set()
    import numpy
    import torch

    return {name for thing in (torch, torch.Tensor, torch.cuda, numpy, numpy.ndarray) for name in dir(thing)}


def prove_hints(lab: Lab) -> Iterator[str]:
    """P9."""
    answer = words(source.render_solution(lab))
    runs = {tuple(answer[i : i + HINT_RUN]) for i in range(len(answer) - HINT_RUN + 1)}
    hints = (lab.folder / "hints.md").read_text(encoding="utf-8").split("\n## ")[1:]
    if len(hints) != 3:
        yield f"P9 hints.md has {len(hints)} levels, not 3"
    for level, hint in enumerate(hints[:2], start=1):
        mine = words(hint)
        if any(tuple(mine[i : i + HINT_RUN]) in runs for i in range(len(mine) - HINT_RUN + 1)):
            yield f"P9 hint {level} shares {HINT_RUN} words in a row with the answer"


def prove_citations(lab: Lab) -> Iterator[str]:
    """P12."""
    index = json.loads(SYMBOLS.read_text(encoding="utf-8"))
    for citation in lab.vllm:
        module, _, name = citation.partition(":")
        if name not in index.get(module, {}):
            yield f"P12 vLLM has no {citation}"


def words(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def prove_bugs(lab: Lab, proof: Proof, chosen: Collection[str] | None) -> Iterator[str]:
    """P3, P6 and P10, and that the messages are short enough."""
    found_by: dict[str, set[str]] = defaultdict(set)  # test function: bugs
    tests, bugs = read_tests(lab), seeded_bugs(lab)
    ideas = {test.function.__name__: test.concept.idea for test in tests}
    proof.num_bugs, proof.red, proof.messages, proof.by_chance = len(bugs), {}, {}, set()
    if len([name for name in bugs if not name.startswith("hang_")]) < MIN_BUGS:
        yield f"P3 {len(bugs)} seeded bugs, at least {MIN_BUGS} are needed"
    hangs_after = INTERPRETED if "triton" in lab.needs else HANGS_AFTER
    for bug in (bug for name, bug in bugs.items() if chosen is None or name in chosen):
        with limits(hangs_after, BEHIND_A_HANG):
            results = run_lab(lab, [bug.part])
        red = [result for result in results if result.outcome != PASSED]
        first_hang = next((result for result in red if result.outcome == HANG), None)
        for result in red:  # one that hangs behind another had too little time to say anything
            if result.outcome != HANG or result is first_hang:
                found_by[result.test.partition("[")[0]].add(bug.name)
        if bug.name.startswith(("hang_", "chance_")) or any(result.outcome == HANG for result in red):
            proof.by_chance.add(bug.name)
        own = [result for result in red if result.concept.idea == ideas.get(bug.test)]
        proof.red[bug.name] = [result.test for result in red]
        if red:
            proof.messages[bug.name] = re.sub(r"0x[0-9a-f]+", "0x...", (own or red)[0].message).strip()
        yield from judge_bug(bug, ideas, results, red, own)
    if chosen is not None:  # P6 asks for all bugs; it holds as long as the same tests find the same ones
        return
    illustrating = {test.function.__name__ for test in tests if test.concept.illustrates or test.concept.searches}
    for test in {test.function.__name__: test for test in tests}.values():
        name = test.function.__name__
        others = set().union(*(bugs for other, bugs in found_by.items() if other not in (name, *illustrating)))
        if not test.concept.illustrates and not found_by[name] - others:
            yield f"P6 {name} finds no bug that no other test finds"


def judge_bug(
    bug: Answer, ideas: Mapping[str, str], results: Sequence[Result], red: Sequence[Result], own: Sequence[Result]
) -> Iterator[str]:
    """What a seeded bug shows about the tests."""
    if bug.test not in ideas:
        yield f"P3 {bug.name} names {bug.test}, and there is no such test"
    elif not red:
        yield f"P3 {bug.name} is not found"
    elif not own:
        found = {result.concept.idea for result in red}
        yield f"P3 {bug.name} is found by tests of other concepts only: {'; '.join(sorted(found))}"
    if bug.name.startswith("hang_") and not any(
        result.outcome == HANG or re.search("RecursionError|did not come back", result.message) for result in red
    ):
        yield f"P10 {bug.name} does not end as a hang: {[result.outcome for result in results]}"
    for result in red:
        if result.outcome in (FAILED, HANG) and len(result.message.splitlines()) > MAX_LINES:
            yield f"P3 {bug.name}: the message of {result.test} has more than {MAX_LINES} lines"
        if says_nothing(result.message):
            yield f"P3 {bug.name}: the message of {result.test} shows no difference:\n{result.message}"


def says_nothing(message: str) -> bool:
    """Whether what was expected reads like what came, or a yes and a no stand for what was compared."""
    pair = re.search(r"^    expected  (.*)\n    got       (.*)$", message, re.M)
    return pair is not None and (pair[1] == pair[2] or pair.groups() == ("yes", "no"))


def prove_variants(lab: Lab, proof: Proof) -> Iterator[str]:
    """P4."""
    proof.variants = list(ways := other_ways(lab))
    for way in ways.values():
        for result in run_lab(lab, [way.part]):
            if result.outcome != PASSED:
                yield f"P4 {way.name} is correct, but {result.test} is red:\n{result.message}"
    if len(ways) < MIN_VARIANTS:
        yield f"P4 {len(ways)} other correct ways, at least {MIN_VARIANTS} are needed"


# --- what a learner reads ---------------------------------------------------------------------------------------------


def without_values(lab: Lab, message: str) -> str:
    """A message of a kernel without the indented lines: one that reads out of range shows what happens to lie there."""
    return re.sub(r"(?m)^    .*$", "    ...", message) if "triton" in lab.needs else message


def prove_messages(proof: Proof, locked: Entry, shown: Mapping[str, str]) -> Iterator[str]:
    """P13. shown: the lab's messages in proof/messages.txt."""
    lab, known = find_lab(proof.lab_id), locked.get("bugs", {})
    for name, hashes in proof.hashes().items():
        if not hashes or known.get(name) == []:  # on a busy machine another test may be the first that hangs
            continue
        message = proof.messages[name]
        is_known = known[name][1] == hashes[1] if name in known else name in shown
        if not is_known or without_values(lab, shown.get(name, message)) != without_values(lab, message):
            old, new = shown.get(name, "").splitlines(), message.splitlines()
            change = "\n".join(list(difflib.unified_diff(old, new, lineterm="", n=99))[3:] if old else new)
            yield f"P13 {name}: read the change, then python -m labkit.prove {lab.id} --write\n{change}"


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def moved(proof: Proof, locked: Entry) -> bool:
    """Whether a bug that was tried is found by other tests than those of the lock."""
    known = locked.get("bugs", {})
    return any(known.get(name) and hashes and hashes[0] != known[name][0] for name, hashes in proof.hashes().items())
