"""Proves that the labs are graded well: `python -m labkit.prove [lab ids] [--changed] [--write]`.

    P1   the reference passes every test
    P2   the untouched stub fails every test, as not written yet
    P3   every seeded bug is found, by a test of its own concept
    P4   every other correct way passes
    P6   every test finds a bug that no other test finds, or says that it only illustrates
    P7   tests touch names of the contract only, have a concept with a known invariant, and each reaches an expectation
    P8   the committed stubs are those that the reference gives
    P9   the first two hints share no run of HINT_RUN words with the answer
    P10  a hang ends with a named cause, and the tests after it run
    P12  every symbol of vLLM that a lab cites exists in the pinned release
    P13  what learners read for a seeded bug is what was read and committed

(P5, automatic mutants, is tools/mutation's; P11 is test_release.py.) Exit status 1 if a law does not hold.

proof/lock.json has an entry for each lab that was proven: the inputs of the proof (labkit.inputs) with their hash, and
of each seeded bug which tests are red and what a learner reads, as hashes. With --changed only these are proven:

    - labs whose own files differ from the lock;
    - labs whose entry the last change wrote (against $BASE, by default the commit before);
    - labs whose other inputs differ, the engine's or labkit's, and two labs by lot: eight bugs by lot, of eight tests.

An input that the lock does not list breaks the proof, so the choice is sound. --write writes the lock, about SHOWN
messages of each lab into proof/messages.txt and, if all labs were proven, proof/report.md for the book. It prints
every message that changed, for its author to read.
"""

import argparse
import ast
import difflib
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

from labkit import source, testing
from labkit.breaking import unpack, versions_of
from labkit.catalog import ROOT, SYMBOLS, Lab, LabkitError, find_lab, labs
from labkit.graft import Part
from labkit.implementations import Answer, other_ways, reference_parts, seeded_bugs
from labkit.inputs import Recorder, digest, forget_digests
from labkit.messages import MAX_LINES
from labkit.runner import FAILED, HANG, PASSED, TODO, Result, prepare, read_tests, run_lab, why_not_graded
from labkit.watchdog import limits

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a second thread costs more than it brings
FORK = get_context("forkserver")  # torch is imported once
FORK.set_forkserver_preload(["torch"])
MIN_BUGS, MIN_VARIANTS = 6, 2
SHOWN = 10  # messages of a lab that proof/messages.txt has in full
BY_LOT = 2  # labs
BUGS_BY_LOT = 8  # of a lab whose own files are as they were
LIMITS = 1.0, 0.1  # seconds of the processor for a test of a seeded bug, and for the tests after one that hung
HINT_RUN = 8
REPORT, LOCK, MESSAGES = (ROOT / "proof" / name for name in ("report.md", "lock.json", "messages.txt"))
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
        found = list(prove_bugs(lab, proof, chosen))
        if chosen is not None and moved(proof, locked or {}):  # one bug no longer stands for others
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
        from labkit.evidence import is_current  # the other labs do not depend on what it imports

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
    for bug in (bug for name, bug in bugs.items() if chosen is None or name in chosen):
        with limits(*LIMITS):
            results = run_lab(lab, [bug.part])
        red = [result for result in results if result.outcome != PASSED]
        for result in red:
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


def read_messages() -> dict[str, dict[str, str]]:
    """The messages of proof/messages.txt by lab and bug."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    text = MESSAGES.read_text(encoding="utf-8") if MESSAGES.exists() else ""
    for title, _, message in (part.partition("\n") for part in text.split("=== ")[1:]):
        lab_id, _, name = title.partition(" ")
        found[lab_id][name] = message.strip()
    return found


def write_messages(messages: Mapping[str, Mapping[str, str]]) -> None:
    """Write proof/messages.txt."""
    chosen = [(lab.id, name) for lab in labs() for name in sorted(messages.get(lab.id, {}))]
    text = "\n".join(f"=== {lab_id} {name}\n{messages[lab_id][name]}\n" for lab_id, name in chosen)
    MESSAGES.write_text(text, encoding="utf-8")


def messages_to_show(proof: Proof, shown: Iterable[str]) -> dict[str, str]:
    """The messages of the bugs that were shown before, and of other tests as many as there is room for."""
    told = {name: message for name, message in proof.messages.items() if name not in proof.by_chance}
    names = [name for name in shown if name in told]
    bugs = seeded_bugs(find_lab(proof.lab_id))
    seen = {bugs[name].test for name in names}
    for name in told:
        if len(names) < SHOWN and bugs[name].test not in seen:
            names.append(name)
            seen.add(bugs[name].test)
    return {name: told[name] for name in names}


# --- the report -------------------------------------------------------------------------------------------------------


def report_of(proofs: Sequence[Proof]) -> str:
    """Markdown for the book."""
    lines = [
        "# How we know our tests are good",
        "",
        "Written by `python -m labkit.prove --write`.",
        "",
        "| lab | tests | seeded bugs found | other correct ways that pass |",
        "|---|---|---|---|",
    ]
    for proof in proofs:
        row = (f"{proof.lab_id} {proof.title}", proof.num_tests, proof.note or len(proof.red), len(proof.variants))
        lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines) + "\n"


# --- the lock ---------------------------------------------------------------------------------------------------------


def short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def entry_of(proof: Proof) -> Entry:
    """What the lock keeps of a proof."""
    own, others = parted(proof.lab_id, proof.inputs)
    return {"own": digest(own), "others": digest(others), "inputs": [*own, *others], "bugs": proof.hashes()}


def moved(proof: Proof, locked: Entry) -> bool:
    """Whether a bug that was tried is found by other tests than those of the lock."""
    known = locked.get("bugs", {})
    return any(known.get(name) and hashes and hashes[0] != known[name][0] for name, hashes in proof.hashes().items())


def parted(lab_id: str, inputs: Sequence[str]) -> tuple[list[str], list[str]]:
    """The lab's own files; the engine, labkit and what else it needs."""
    lab = find_lab(lab_id)
    homes = tuple(f"{folder.relative_to(ROOT).as_posix()}/" for folder in (lab.folder, lab.proof))
    own = [name for name in inputs if name.startswith(homes)]
    return own, [name for name in inputs if name not in own]


def read_lock() -> dict[str, Entry]:
    """The entries of the lock by lab."""
    locked: dict[str, Entry] = json.loads(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else {}
    return locked


def write_lock(entries: Mapping[str, Entry]) -> None:
    """One line for each input and each bug, so that a change shows what it concerns."""
    text = json.dumps({lab.id: entries[lab.id] for lab in labs() if lab.id in entries}, indent=1)
    LOCK.write_text(re.sub(r'\[\s+("\w{8}"),\s+("\w{8}")\s+\]', r"[\1, \2]", text) + "\n", encoding="utf-8")


def lock_of_base() -> dict[str, Entry]:
    """The lock before the last change; nothing where git has none, so that every entry counts as written."""
    found = git("show", f"{os.environ.get('BASE') or 'HEAD^'}:{LOCK.relative_to(ROOT).as_posix()}")
    locked: dict[str, Entry] = json.loads(found or "{}")
    return locked


def git(*arguments: str) -> str:
    """What a command of git prints; nothing if it fails."""
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False).stdout


def choose(locked: Mapping[str, Entry], lot: random.Random) -> Iterator[tuple[str, str, set[str] | None]]:
    """The labs that --changed proves: id, why, and the bugs to try, None for all."""
    base, ids = lock_of_base(), [lab.id for lab in labs()]
    drawn = lot.sample(ids, BY_LOT)
    for lab_id in ids:
        if lab_id not in locked:
            yield lab_id, "it is new", None
            continue
        entry = locked[lab_id]
        own, others = parted(lab_id, entry["inputs"])
        if digest(own) != entry["own"]:
            yield lab_id, "its files changed", None
        elif entry != base.get(lab_id):
            yield lab_id, "its entry in the lock changed", None
        elif lab_id in drawn or digest(others) != entry["others"]:
            why = "by lot" if lab_id in drawn else "what it runs on changed"
            yield lab_id, why, representatives(find_lab(lab_id), lot)


def representatives(lab: Lab, lot: random.Random) -> set[str]:
    """Some bugs, each made for another test. Where other tests find one than before, all are tried."""
    made_for = defaultdict(list)
    for name, bug in seeded_bugs(lab).items():
        made_for[bug.test].append(name)
    return {lot.choice(made_for[test]) for test in lot.sample([*made_for], min(BUGS_BY_LOT, len(made_for)))}


# --- the command ------------------------------------------------------------------------------------------------------


def main() -> None:
    """Prove the labs named, those that changed, or all."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("labs", nargs="*")
    parser.add_argument("--changed", action="store_true", help="only what differs from proof/lock.json, and two by lot")
    parser.add_argument("--write", action="store_true", help="write proof/lock.json, the report and the messages")
    parser.add_argument("--messages", action="store_true", help="print what a learner reads for every seeded bug")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    locked, shown = read_lock(), read_messages()
    work: list[tuple[str, str, set[str] | None]] = [(lab_id, "", None) for lab_id in args.labs]
    if args.changed:
        work = list(choose(locked, random.Random(git("rev-parse", "HEAD"))))  # the same lot for all at this commit
    elif not work:
        work = [(lab.id, "", None) for lab in labs()]
    proofs = []
    with ProcessPoolExecutor(args.workers, mp_context=FORK, max_tasks_per_child=1) as pool:
        longest_first = sorted(work, key=lambda each: not find_lab(each[0]).is_break_it)
        running = {
            lab_id: pool.submit(prove, lab_id, locked.get(lab_id), None if args.write else bugs)
            for lab_id, _, bugs in longest_first
        }
        for lab_id, why, _ in work:
            proofs.append(running[lab_id].result())
            proofs[-1].broken += prove_messages(proofs[-1], locked.get(proofs[-1].lab_id, {}), shown[proofs[-1].lab_id])
            tell(proofs[-1], why, with_messages=args.messages, writes=args.write)
    if args.write:
        write(proofs, locked, everything=len(proofs) == len(list(labs())))
    if args.changed:
        print(f"{len(proofs)} of {len(list(labs()))} labs were proven.")
    sys.exit(any(proof.broken for proof in proofs))


def tell(proof: Proof, why: str, *, with_messages: bool, writes: bool) -> None:
    """One line for a lab, and below it what does not hold; if it is to be written, the messages that changed."""
    changed = [sentence for sentence in proof.broken if sentence.startswith(("P13", "proof/lock.json"))]
    if writes:
        proof.broken = [sentence for sentence in proof.broken if sentence not in changed]
    print(
        f"{proof.lab_id:5}  {proof.num_tests:3} tests  {len(proof.red):3} of {proof.num_bugs:3} bugs  "
        f"{len(proof.variants)} variants  {proof.note or ('holds' if not proof.broken else 'BROKEN')}"
        + (f"  ({why})" if why else "")
    )
    for sentence in proof.broken:
        print(f"      {sentence if with_messages else sentence.splitlines()[0]}")
    for sentence in changed if writes else ():
        if sentence.startswith("P13"):
            print(sentence.partition("\n")[2] + "\n")
    for bug, message in proof.messages.items() if with_messages else ():
        print(f"\n=== {proof.lab_id} {bug}\n{message}")
    sys.stdout.flush()


def write(proofs: Sequence[Proof], locked: Mapping[str, Entry], *, everything: bool) -> None:
    """--write, for the labs that hold."""
    held, shown = [proof for proof in proofs if proof.red and not proof.broken], read_messages()
    write_messages({**shown, **{proof.lab_id: messages_to_show(proof, shown[proof.lab_id]) for proof in held}})
    forget_digests()
    write_lock({**locked, **{proof.lab_id: entry_of(proof) for proof in held}})
    if everything:
        REPORT.write_text(report_of(proofs), encoding="utf-8")


if __name__ == "__main__":
    main()
