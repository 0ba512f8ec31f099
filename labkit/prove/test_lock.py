"""Which labs are proven, and with which of their seeded bugs."""

import random

import pytest

from labkit.labs.catalog import ROOT, find_lab
from labkit.labs.implementations import seeded_bugs
from labkit.prove import lock
from labkit.prove.inputs import digest
from labkit.prove.laws import Proof
from labkit.prove.lock import BUGS_BY_LOT, choose, entry_of, representatives

LAB = find_lab("03.3")
OWN, OTHERS = [(LAB.folder / "contract.md").relative_to(ROOT).as_posix()], ["mini_vllm/request.py"]
CURRENT = {"own": digest(OWN), "others": digest(OTHERS), "inputs": [*OWN, *OTHERS], "bugs": {}}


@pytest.fixture(autouse=True)
def one_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "labs", lambda: [LAB])
    monkeypatch.setattr(lock, "BY_LOT", 0)
    monkeypatch.setattr(lock, "lock_of_base", lambda: {LAB.id: CURRENT})


def test_what_is_as_in_the_lock_is_not_proven_again() -> None:
    assert list(choose({LAB.id: CURRENT}, random.Random(0))) == []


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (None, "it is new"),
        ({"own": "0"}, "its files changed"),
        ({"others": "0"}, "its entry in the lock changed"),
    ],
)
def test_what_differs_in_its_own_files_is_proven_with_all_bugs(entry: dict[str, str] | None, why: str) -> None:
    locked = {} if entry is None else {LAB.id: {**CURRENT, **entry}}
    assert list(choose(locked, random.Random(0))) == [(LAB.id, why, None)]


def test_what_runs_beneath_a_lab_asks_for_bugs_of_as_many_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    old = {LAB.id: {**CURRENT, "others": "0"}}
    monkeypatch.setattr(lock, "lock_of_base", lambda: old)
    ((_, why, some),) = choose(old, random.Random(0))
    assert why == "what it runs on changed"
    assert some is not None
    assert len({seeded_bugs(LAB)[name].test for name in some}) == BUGS_BY_LOT
    assert some != representatives(LAB, random.Random(1)), "another commit draws others"


def test_a_bug_that_ran_out_of_time_keeps_what_is_known_of_it_while_the_lab_is_the_same() -> None:
    known = {**CURRENT, "bugs": {"slow": ["11111111", "22222222"], "hang_always": []}}
    busy = Proof(LAB.id, LAB.title, inputs=[*OWN, *OTHERS])
    busy.red = {name: ["test_a"] for name in ("slow", "hang_always", "found")}
    busy.messages = dict.fromkeys(busy.red, "a difference")
    busy.by_chance = {"slow", "hang_always"}
    kept = entry_of(busy, known)["bugs"]
    assert kept == {"slow": known["bugs"]["slow"], "hang_always": [], "found": busy.hashes()["found"]}
    assert entry_of(busy, {**known, "own": "0"})["bugs"]["slow"] == []
    assert entry_of(busy)["bugs"]["slow"] == []
