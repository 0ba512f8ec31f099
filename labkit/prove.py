"""Proves that the labs are graded well: `python -m labkit.prove [lab ids] [--write]`.

    P1   the reference passes every test
    P2   the untouched stub fails every test, as not written yet
    P3   every seeded bug is found, by a test of its own concept, in under MOST_SECONDS
    P4   every other correct way passes
    P6   every test finds a bug that no other test finds, or says that it only illustrates
    P7   tests touch names of the contract only, have a concept with a known invariant, and each reaches an expectation
    P8   the committed stubs are those that the reference gives
    P9   the first two hints share no run of HINT_RUN words with the answer
    P10  a hang ends in MOST_SECONDS with a named cause, and the tests after it run
    P12  every symbol of vLLM that a lab cites exists in the pinned release

(P5, automatic mutants, is tools/mutation's; P11 is test_release.py.) Exit status 1 if a law does not hold.
--write puts the report into proof/report.md, for the book, and what a learner reads for every seeded bug into
proof/<lab>/messages.txt: golden files, with which the next run compares.
"""

import argparse
import ast
import json
import random
import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

from labkit import source, testing
from labkit.breaking import unpack, versions_of
from labkit.catalog import ROOT, SYMBOLS, Lab, LabkitError, find_lab, labs
from labkit.evidence import is_current
from labkit.graft import Part
from labkit.implementations import proof_part, reference_parts, story_of
from labkit.messages import MAX_LINES
from labkit.runner import FAILED, HANG, PASSED, TODO, Result, read_tests, run_lab, why_not_graded

MOST_SECONDS = 5.0
MIN_BUGS, MIN_VARIANTS = 10, 3
HINT_RUN = 8
REPORT = ROOT / "proof" / "report.md"
BUILT_IN = {name for kind in (list, dict, set, tuple, str, int, float, range, random.Random) for name in dir(kind)}
LABKIT_NAMES = {
    "reference",
    "draw",
    "drive",
    "timeline",
    "yours",
    "blame",
    "read_trace",
    "suite",
    "must_be_green",
    "must_be_red",
    "must_name",
    "true",
    "fail",
    "blocks",
    "queue",
    "scheduler",
    "scheduled",
    "preempted",
    "finished",
}


@dataclass
class Proof:
    """What was found out about one lab. broken: one sentence for each law that does not hold."""

    lab_id: str
    title: str
    num_tests: int = 0
    bugs: dict[str, str] = field(default_factory=dict)  # name: how it was found
    messages: dict[str, str] = field(default_factory=dict)  # bug: what a learner reads
    ran_out_of_time: list[str] = field(default_factory=list)  # bugs that ended as a hang
    variants: list[str] = field(default_factory=list)
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)
    note: str = ""


def prove(lab_id: str) -> Proof:
    """All laws for one lab."""
    warnings.simplefilter("ignore", SyntaxWarning)  # a seeded bug asserts a pair, for instance
    lab, start = find_lab(lab_id), time.perf_counter()
    proof = Proof(lab.id, lab.title)
    if reason := why_not_graded(lab):
        proof.note = reason
        return proof
    try:
        proof.num_tests = len(read_tests(lab))
        proof.broken += [
            *prove_reference(lab),
            *prove_stub(lab),
            *prove_tests(lab),
            *prove_hints(lab),
            *prove_citations(lab),
        ]
        prove_bugs(lab, proof)
        prove_variants(lab, proof)
        proof.broken += prove_golden(lab, proof)
    except LabkitError as error:
        proof.broken.append(str(error))
    proof.seconds = time.perf_counter() - start
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
        yield "P8 versions.txt is not what versions.toml lists; python tools/make_stubs.py makes it"
    for case in lab.cases:
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


def prove_bugs(lab: Lab, proof: Proof) -> None:
    """P3, P6 and P10, and that the messages are short enough."""
    found_by: dict[str, set[str]] = defaultdict(set)  # test function: bugs
    files = sorted((lab.proof / "bugs").glob("*.py"))
    if len([file for file in files if not file.stem.startswith("hang_")]) < MIN_BUGS:
        proof.broken.append(f"P3 {len(files)} seeded bugs, at least {MIN_BUGS} are needed")
    for file in files:
        concept = story_of(file)["concept"]
        results = run_lab(lab, [proof_part(lab, file)])
        red = [result for result in results if result.outcome != PASSED]
        for result in red:
            found_by[result.test.partition("[")[0]].add(file.stem)
        if any(result.outcome == HANG for result in red):
            proof.ran_out_of_time.append(file.stem)
        own = [result for result in red if result.concept.idea == concept]
        proof.bugs[file.stem] = f"{len(red)} tests" + ("" if own else ", none of its concept")
        proof.broken += judge_bug(file, results, red, own)
        if own or red:
            proof.messages[file.stem] = (own or red)[0].message
    tests = read_tests(lab)
    illustrating = {test.function.__name__ for test in tests if test.concept.illustrates or test.concept.searches}
    for test in {test.function.__name__: test for test in tests}.values():
        name = test.function.__name__
        others = set().union(*(bugs for other, bugs in found_by.items() if other not in (name, *illustrating)))
        if not test.concept.illustrates and not found_by[name] - others:
            proof.broken.append(f"P6 {name} finds no bug that no other test finds")


def golden(messages: Mapping[str, str]) -> str:
    """What a learner reads for each seeded bug, but those whose message is left to chance.

    Where a hang was caught is; so is what is said of a suite that throws coins or counts its runs.
    """
    told = {name: message for name, message in messages.items() if not name.startswith(("hang_", "chance_"))}
    texts = [f"=== {name}\n{message}\n" for name, message in told.items()]
    return re.sub(r"0x[0-9a-f]+", "0x...", "\n".join(texts))


def sections(text: str) -> dict[str, str]:
    """The messages of a golden file by bug."""
    return {part.partition("\n")[0]: part.strip() for part in text.split("=== ")[1:]}


def prove_golden(lab: Lab, proof: Proof) -> Iterator[str]:
    """The messages are those that were read and committed."""
    file = lab.proof / "messages.txt"
    committed = sections(file.read_text(encoding="utf-8")) if file.exists() else {}
    now = sections(golden(proof.messages))
    for name in proof.ran_out_of_time:  # on a busy machine another test may be the first that does not come back
        now[name] = committed.get(name, "")
    now = {name: text for name, text in now.items() if text}
    if "triton" in lab.needs:  # a kernel that reads or writes out of range shows what happens to lie there
        committed, now = ({name: without_values(text) for name, text in each.items()} for each in (committed, now))
    if committed != now:
        again = f"python -m labkit.prove {lab.id} --write"
        yield f"messages.txt is not what learners read now; read the change, then {again}"


def without_values(message: str) -> str:
    """A message without its pictures of state and its values: the lines that are indented."""
    return re.sub(r"(?m)^    .*$", "    ...", message)


def judge_bug(file: Path, results: Sequence[Result], red: Sequence[Result], own: Sequence[Result]) -> Iterator[str]:
    """What a seeded bug shows about the tests."""
    slowest = max((result.seconds for result in results), default=0.0)
    if not red:
        yield f"P3 {file.stem} is not found"
    elif not own:
        ideas = {result.concept.idea for result in red}
        yield f"P3 {file.stem} is found by tests of other concepts only: {'; '.join(sorted(ideas))}"
    if slowest > MOST_SECONDS:
        yield f"P3 {file.stem}: a test took {slowest:.1f} s"
    if file.stem.startswith("hang_") and not any(
        result.outcome == HANG or re.search("RecursionError|did not come back", result.message) for result in red
    ):
        yield f"P10 {file.stem} does not end as a hang: {[result.outcome for result in results]}"
    for result in red:
        if result.outcome in (FAILED, HANG) and len(result.message.splitlines()) > MAX_LINES:
            yield f"P3 {file.stem}: the message of {result.test} has more than {MAX_LINES} lines"


def prove_variants(lab: Lab, proof: Proof) -> None:
    """P4."""
    for file in sorted((lab.proof / "variants").glob("*.py")):
        red = [result for result in run_lab(lab, [proof_part(lab, file)]) if result.outcome != PASSED]
        proof.variants.append(file.stem)
        proof.broken += [f"P4 {file.stem} is correct, but {result.test} is red:\n{result.message}" for result in red]
    if len(proof.variants) < MIN_VARIANTS:
        proof.broken.append(f"P4 {len(proof.variants)} other correct ways, at least {MIN_VARIANTS} are needed")


def report_of(proofs: Sequence[Proof]) -> str:
    """Markdown for the book."""
    lines = [
        "# How we know our tests are good",
        "",
        "Written by `python -m labkit.prove --write`.",
        "",
        "| lab | tests | seeded bugs found | other correct ways that pass | seconds |",
        "|---|---|---|---|---|",
    ]
    for proof in proofs:
        lines.append(
            f"| {proof.lab_id} {proof.title} | {proof.num_tests} | {len(proof.bugs)} | {len(proof.variants)} | "
            f"{proof.note or f'{proof.seconds:.0f}'} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prove the labs named, or all; two at a time."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("labs", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--messages", action="store_true", help="print what a learner reads for every seeded bug")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    ids = args.labs or [lab.id for lab in labs()]
    proofs = []
    with ProcessPoolExecutor(args.workers, mp_context=get_context("spawn")) as pool:
        for proof in pool.map(prove, ids):
            proofs.append(proof)
            if args.write:
                proof.broken = [sentence for sentence in proof.broken if not sentence.startswith("messages.txt")]
            print(
                f"{proof.lab_id}  {proof.num_tests:3} tests  {len(proof.bugs):3} bugs  {len(proof.variants)} variants  "
                f"{proof.seconds:5.1f} s  {proof.note or ('holds' if not proof.broken else 'BROKEN')}",
                flush=True,
            )
            for sentence in proof.broken:
                print(f"      {sentence if args.messages else sentence.splitlines()[0]}", flush=True)
            if args.messages:
                for bug, message in proof.messages.items():
                    print(f"\n=== {proof.lab_id} {bug}\n{message}")
    if args.write:
        for proof in proofs:
            if proof.messages:
                file = find_lab(proof.lab_id).proof / "messages.txt"
                file.write_text(golden(proof.messages), encoding="utf-8")
        if not args.labs:
            REPORT.write_text(report_of(proofs), encoding="utf-8")
    sys.exit(any(proof.broken for proof in proofs))


if __name__ == "__main__":
    main()
