"""The honest model hears what it must hear, and nothing else: each slot, each copy, and the order of the copies."""

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from labkit import plan_world, play_world
from labkit.grade.runner import namespace_of
from labkit.labs.catalog import find_lab
from labkit.testing.honest import HonestModel, next_token
from labkit.testing.worlds import Options
from mini_vllm.step import KVPlan, KVResult

TOKENS = [5, 6, 7, 8, 9]
TRUTH = next_token("a", TOKENS)


class Kv:
    """Two slots a block; the block tables are the test's."""

    block_size = 2

    def __init__(self, **tables: list[int]) -> None:
        self.tables = tables
        self.plan = KVPlan()

    def get_block_ids(self, request_id: str) -> list[int]:
        return self.tables[request_id]

    def begin_step(self) -> KVPlan:
        return self.plan

    def end_step(self, result: KVResult | None) -> None:
        assert result == KVResult()
        self.plan = KVPlan()


def request(name: str, computed: int = 0, tokens: list[int] = TOKENS) -> Any:
    return SimpleNamespace(request_id=name, num_computed_tokens=computed, all_token_ids=tokens, num_tokens=len(tokens))


def step(*scheduled: tuple[Any, int], **more: Any) -> Any:
    asked: dict[str, Any] = {"sampling_along": {}}
    counts = {each.request_id: n for each, n in scheduled}
    requests = [each for each, _ in scheduled]
    return SimpleNamespace(scheduled_requests=requests, num_scheduled_tokens=counts, **{**asked, **more})


def model_on(**tables: list[int]) -> HonestModel:
    def needs_sample(request: Any, n: int) -> bool:
        return bool(request.num_computed_tokens + n == request.num_tokens)

    return HonestModel(SimpleNamespace(kv_cache_manager=Kv(**tables), needs_sample=needs_sample))


@pytest.mark.parametrize("sizes", [(5,), (2, 3), (1, 1, 1, 1, 1)])
def test_a_prompt_in_chunks_is_the_prompt(sizes: tuple[int, ...]) -> None:
    model, computed, said = model_on(a=[3, 1, 2]), 0, {}
    for n in sizes:
        assert not said, "an inner chunk is silent"
        said = model.execute(step((request("a", computed), n)))
        computed += n
    assert said == {"a": [TRUTH]}


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("place", [(3, 0), (3, 1), (1, 0), (1, 1)])
def test_every_slot_of_the_prefix_is_heard(layer: int, place: tuple[int, int]) -> None:
    model = model_on(a=[3, 1, 2])
    model.execute(step((request("a"), 4)))
    model.device[(layer, *place)] += 1
    assert model.execute(step((request("a", 4), 1))) != {"a": [TRUTH]}


def test_tokens_and_their_places_and_the_request_are_heard() -> None:
    assert len({TRUTH, next_token("b", TOKENS), next_token("a", TOKENS[::-1]), next_token("a", TOKENS[:4])}) == 4


def test_a_block_is_shared_in_the_step_that_fills_it() -> None:
    model = model_on(a=[3, 1, 2], b=[3, 1, 4])
    b, a = (request("b", 4), 1), (request("a"), 5)
    assert model.execute(step(b, a)) == {"a": [TRUTH], "b": [next_token("b", TOKENS)]}


def test_a_fork_samples_from_the_same_logits() -> None:
    model = model_on(a=[3, 1, 2])
    said = model.execute(step((request("a"), 5), sampling_along={"a": [request("b")]}))
    assert said == {"a": [TRUTH], "b": [next_token("b", TOKENS)]}


def test_copies_come_before_the_step_and_go_out_first() -> None:
    """Block 3 goes out and is taken by b's block; it comes back to block 5, and from there to block 6."""
    model = model_on(a=[3, 1])
    model.execute(step((request("a"), 4)))
    model.scheduler.kv_cache_manager.tables |= {"a": [6, 1, 2], "b": [3]}
    model.scheduler.kv_cache_manager.plan = KVPlan(((3, 0),), ((0, 5),), ((5, 6), (6, 5)))
    assert model.execute(step((request("b", tokens=[1, 2]), 2), (request("a", 4), 1)))["a"] == [TRUTH]


def test_a_block_that_was_never_written_is_copied_as_nothing() -> None:
    model = model_on(a=[3, 1, 2])
    model.execute(step((request("a"), 4)))
    model.scheduler.kv_cache_manager.plan = KVPlan(copy=((9, 3),))
    assert model.execute(step((request("a", 4), 1))) != {"a": [TRUTH]}


# --- the walks that labs take meet what is rare -----------------------------------------------------------------------

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
