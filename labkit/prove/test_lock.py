"""Which labs are proven, and with which of their seeded bugs."""

import random

import pytest

from labkit.labs.catalog import ROOT, find_lab
from labkit.labs.implementations import seeded_bugs
from labkit.prove import lock
from labkit.prove.inputs import digest
from labkit.prove.lock import BUGS_BY_LOT, choose, choose_nightly, representatives

LAB = find_lab("03.3")
OWN, OTHERS = [(LAB.folder / "contract.md").relative_to(ROOT).as_posix()], ["mini_vllm/request.py"]
CURRENT = {"own": digest(OWN), "others": digest(OTHERS), "inputs": [*OWN, *OTHERS], "bugs": {}}


@pytest.fixture(autouse=True)
def one_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "labs", lambda: [LAB])
    monkeypatch.setattr(lock, "BY_LOT", 0)
    monkeypatch.setattr(lock, "lock_of_base", lambda: {LAB.id: CURRENT})


def test_what_is_as_in_the_lock_is_proven_by_night_alone_with_bugs_of_as_many_tests() -> None:
    locked = {LAB.id: CURRENT}
    assert list(choose(locked, random.Random(0))) == []
    ((lab_id, why, some),) = choose_nightly(locked, random.Random(0))
    assert (lab_id, why) == (LAB.id, "")
    assert some is not None
    assert len({seeded_bugs(LAB)[name].test for name in some}) == BUGS_BY_LOT
    assert some != representatives(LAB, random.Random(1)), "another night draws others"


@pytest.mark.parametrize(
    ("entry", "by_day"),
    [
        (None, "it is new"),
        ({"own": "0"}, "its files changed"),
        ({"others": "0"}, "its entry in the lock changed"),
    ],
)
def test_what_differs_from_the_lock_is_proven_with_all_bugs_by_night(entry: dict[str, str] | None, by_day: str) -> None:
    locked = {} if entry is None else {LAB.id: {**CURRENT, **entry}}
    assert list(choose_nightly(locked, random.Random(0))) == [(LAB.id, "it differs from the lock", None)]
    assert list(choose(locked, random.Random(0))) == [(LAB.id, by_day, None)]


def test_by_day_what_runs_beneath_a_lab_asks_for_some_bugs(monkeypatch: pytest.MonkeyPatch) -> None:
    old = {LAB.id: {**CURRENT, "others": "0"}}
    monkeypatch.setattr(lock, "lock_of_base", lambda: old)
    ((_, why, some),) = choose(old, random.Random(0))
    assert why == "what it runs on changed"
    assert some is not None
    assert len(some) == BUGS_BY_LOT
