"""proof/lock.json, and what --changed proves by it."""

import json
import os
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from labkit.labs.catalog import ROOT, Lab, find_lab, labs
from labkit.labs.implementations import seeded_bugs
from labkit.prove.inputs import digest
from labkit.prove.laws import Entry, Proof

LOCK = ROOT / "proof" / "lock.json"
BY_LOT = 2  # labs
BUGS_BY_LOT = 8  # of a lab whose own files are as they were


def entry_of(proof: Proof, known: Entry | None = None) -> Entry:
    """What the lock keeps of a proof. known: its entry so far.

    On a busy machine a test may run out of time. What is known of a bug is kept then, if the lab's files are the same.
    """
    own, others = parted(proof.lab_id, proof.inputs)
    bugs, own_digest = proof.hashes(), digest(own)
    if known is not None and known["own"] == own_digest:
        bugs = {name: hashes or known["bugs"].get(name, []) for name, hashes in bugs.items()}
    return {"own": own_digest, "others": digest(others), "inputs": [*own, *others], "bugs": bugs}


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
