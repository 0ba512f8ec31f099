"""The walks that labs take meet what is rare: without that they would find nothing."""

import random
from collections import Counter

from labkit import plan_world, play_world
from labkit.catalog import find_lab
from labkit.runner import namespace_of
from labkit.worlds import Options

NUM_WALKS = 60  # about what a lab takes
LOOKED_AT = dict.fromkeys(("preempted", "admitted", "scheduled", "hits"), "I1")
AFTER = dict.fromkeys(("finished", "sampled", "statuses", "preemptions"), "I1")
RARE = ("finish", "late", "fail", "preempt")


def test_walks_meet_what_is_rare():
    lab, met = namespace_of(find_lab("03.2")), Counter[str]()
    for seed in range(NUM_WALKS):
        calls = plan_world(random.Random(seed), rare=RARE)
        used = [call[1] for call in calls if call[0] == "add"]
        met["an id used again"] += len(used) > len(set(used))
        met["out of order"] += used != sorted(used)
        met["two schedulers"] += any("scheduler" in call[-1] for call in calls if isinstance(call[-1], Options))
        for _, what, value, *_ in play_world(lab, calls, decided=LOOKED_AT, updated=AFTER):
            kind = what.partition(": ")[2].partition(" (")[0]
            if kind == "who gives way":
                met["victims"] += len(value)
                met["several victims"] += len(value) > 1
            elif kind == "who finished, and why":
                met.update(reason for _, reason in value)
            elif kind == "tokens that each would find cached":
                met["hits"] += any(value.values())
            elif kind == "num_preemptions of each":
                met["twice a victim"] += max(value.values(), default=0) > 1
            elif kind == "status of each":
                met.update(status.removeprefix("FINISHED_") for status in set(value.values()))
    few = {what: met[what] for what in met if met[what] < 3}
    assert not few, few
    assert {
        "stop",
        "length",
        "STOPPED",
        "LENGTH",
        "ABORTED",
        "ERROR",
        "victims",
        "hits",
        "several victims",
    } <= met.keys()


def test_any_part_of_a_walk_makes_sense():
    lab = namespace_of(find_lab("03.2"))
    for seed in range(NUM_WALKS):
        rng = random.Random(seed)
        first, *rest = plan_world(rng, rare=RARE)
        part = [call for call in rest if rng.random() < 0.5]
        list(play_world(lab, [first, *part], decided=LOOKED_AT, updated=AFTER))


def test_a_call_is_shown_as_it_is_written():
    assert repr(Options(prompt=3, ended="a")) == "prompt=3, ended='a'"
