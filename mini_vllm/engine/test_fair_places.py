"""One client never keeps all places from another one, and alone it may have them all."""

from collections import Counter

import pytest

from mini_vllm.engine.fair_places import FairPlaces
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import SamplingParams, StructuredOutputs
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Step
from mini_vllm.structured.scheduler import GrammarGate
from mini_vllm.structured.test_scheduler import Grammars

PLACES = 4


class Server:
    """A scheduler with few places, whose requests sample a token in each step."""

    def __init__(self, *, is_fair: bool = True, num_blocks: int = 200) -> None:
        self.grammars, kv = Grammars(), KVCacheManager(num_blocks, 4)
        self.scheduler = Scheduler(kv, max_num_seqs=PLACES, max_num_batched_tokens=64)
        self.scheduler.attach(GrammarGate(self.grammars))
        if is_fair:
            self.scheduler.attach(FairPlaces())
        self.num_added = 0

    def add(self, client: str, *lengths: int, grammar: str | None = None) -> None:
        """A request for each number of tokens."""
        form = grammar and StructuredOutputs(grammar=grammar)
        for length in lengths:
            params = SamplingParams(max_tokens=length, ignore_eos=True, structured=form)
            name, self.num_added = f"{client}{self.num_added}", self.num_added + 1
            self.scheduler.add_request(Request(name, [self.num_added] * 5, params, client=client))

    def step(self) -> dict[str, int]:
        """How many places each client has in the next step."""
        step = Step.decide(self.scheduler)
        places = Counter(each.client for each in step.output.scheduled_requests)
        step.update(self.scheduler, {each: [4] for each in step.output.num_scheduled_tokens})
        return dict(places)

    def names(self) -> list[str]:
        """The requests that are in the next step."""
        step = Step.decide(self.scheduler)
        step.update(self.scheduler, {each: [4] for each in step.output.num_scheduled_tokens})
        return [*step.output.num_scheduled_tokens]


def test_each_place_that_becomes_free_goes_to_the_client_that_has_fewer() -> None:
    server = Server()
    server.add("a", 2, 3, 4, 5, *[9] * 40)
    assert server.step() == {"a": 4}, "alone it has all places"
    server.add("b", 20, 20, 20)
    assert [server.step() for _ in range(4)] == [
        {"a": 4},
        {"a": 3, "b": 1},
        {"a": 2, "b": 2},
        {"a": 2, "b": 2},
    ]
    server.add("c", 20, 20)
    found = [server.step() for _ in range(12)]
    assert all(each["b"] == 2 and each.get("c", 0) <= 2 for each in found)
    assert found[-1] == {"a": 1, "b": 2, "c": 1}


def test_a_client_that_is_alone_again_has_all_places() -> None:
    server = Server()
    server.add("b", 2)
    server.add("a", *[9] * 6)
    assert server.step() == {"b": 1, "a": 3}
    server.step()
    assert server.step() == {"a": 4}


@pytest.mark.parametrize(("is_fair", "least", "most"), [(True, 0, 15), (False, 60, 99)])
def test_where_blocks_are_short_a_client_that_waits_is_next_too(
    is_fair: bool, least: int, most: int
) -> None:
    """Then there are more places than requests that have room."""
    server = Server(is_fair=is_fair, num_blocks=1 + 2 * 4)
    server.add("a", *[10] * 20)
    for _ in range(6):
        server.step()
    server.add("b", 5)
    waited = next(number for number in range(200) if "b" in server.step())
    assert least <= waited < most, "the first requests that end make room for it"


def test_requests_of_one_client_keep_their_order() -> None:
    fair, plain = Server(), Server(is_fair=False)
    for server in (fair, plain):
        server.add("a", 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9)
    assert [fair.names() for _ in range(20)] == [plain.names() for _ in range(20)]


def test_a_request_that_waits_for_its_grammar_keeps_no_place_free() -> None:
    server = Server()
    server.add("b", 5, grammar="g")
    server.add("a", *[9] * 6)
    server.step()
    assert server.step() == {"a": 4}
    server.grammars.is_ready("g")
    for _ in range(8):
        found = server.step()
    assert found["b"] == 1


def test_a_client_is_not_overtaken_without_end() -> None:
    """New clients come all the time, and each of them has fewer places than one that runs."""
    server = Server()
    server.add("a", *[3] * 4)
    seen: Counter[str] = Counter()
    for number in range(40):
        server.add(f"new{number}", 3)
        server.add(f"more{number}", 3)
        seen.update(server.step())
    assert seen["a"] == 12, "all its tokens"
