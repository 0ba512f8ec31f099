"""Loads from another engine: vLLM's recorded decisions, and what vLLM gets wrong."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from labkit.compare.replay import differences, find_trace_files, read_traces
from mini_vllm.errors import DuplicateRequestError, InvalidParameterError
from mini_vllm.offload.hybrid.groups import FullAttention
from mini_vllm.offload.transfer.connector import (
    KVTransferError,
    Match,
    TransferConnector,
    TransferReport,
)
from mini_vllm.offload.transfer.groups import HybridTransferManager
from mini_vllm.offload.transfer.manager import TransferKVCacheManager
from mini_vllm.offload.transfer.scheduler import TransferScheduler, with_transfers
from mini_vllm.params import SamplingParams
from mini_vllm.policies.v0.sequence_group import SequenceGroupScheduler
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import BlockTable, KVResult

TRACES = find_trace_files(Path(__file__).parents[3] / "traces" / "vllm-0.33.0-connector")
QUICK = {"fail_sync", "hand", "hybrid", "quirk"}


def test_all_traces_are_here() -> None:
    assert sum(len(read_traces(file)) for file in TRACES) == 110


@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=() if file.stem in QUICK else pytest.mark.slow, id=file.stem)
        for file in TRACES
    ],
)
def test_every_decision_is_vllms(file: Path) -> None:
    """What vLLM 0.33.0 decided with a connector (traces/README.md); of quirks only the tokens."""
    assert differences(file) == []


@pytest.mark.slow
def test_a_broken_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, wrong in {
        "_num_reserved_blocks": lambda self: 0,
        "_has_room": lambda self, output: True,
        "_find_lost": lambda self, report: [],
    }.items():
        with monkeypatch.context() as context:
            context.setattr(TransferScheduler, name, wrong)
            assert any(map(differences, TRACES)), name


# --- by hand --------------------------------------------------------------------------------------


class Store(TransferConnector):
    """Has the first `ext` tokens of every request, or does not know it."""

    def __init__(self, ext: int | None, is_async: bool = True, keeps: bool = False) -> None:
        self.ext, self.is_async, self.keeps = ext, is_async, keeps
        self.loads: list[tuple[str, Sequence[BlockTable], int]] = []
        self.finished: list[tuple[str, Sequence[BlockTable]]] = []

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Match:
        if self.ext is None:
            return Match(None)
        most = request.num_tokens - (not self.is_async)
        n = max(min(self.ext, most) - num_computed_tokens, 0)
        return Match(n, self.is_async and n > 0)

    def update_state_after_alloc(
        self, request: Request, block_ids: Sequence[BlockTable], num_external_tokens: int
    ) -> None:
        if num_external_tokens:
            self.loads.append((request.request_id, block_ids, num_external_tokens))

    def build_connector_meta(self, num_scheduled_tokens: Mapping[str, int]) -> None:
        return None

    def request_finished(self, request: Request, block_ids: Sequence[BlockTable]) -> bool:
        self.finished.append((request.request_id, block_ids))
        return self.keeps


class World:
    """A scheduler with a store. Every request samples token 1."""

    def __init__(self, store: Store, num_blocks: int = 40, **options: Any) -> None:
        self.store = store
        self.kv = TransferKVCacheManager(num_blocks, 4, connector=store, **options)
        self.scheduler = with_transfers(Scheduler)(
            self.kv, max_num_seqs=4, max_num_batched_tokens=64
        )

    def add(self, name: str, num_tokens: int, max_tokens: int = 2) -> Request:
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        request = Request(name, range(10, 10 + num_tokens), params)
        self.scheduler.add_request(request)
        return request

    def step(self, fails: bool = False, aborted: str = "", **report: Any) -> dict[str, int]:
        """Returns what was scheduled; the report comes with the end of the step.

        fails: nothing comes of it. aborted: a request that its client has given up by then.
        """
        step = Step.decide(self.scheduler)
        if fails:
            if aborted:
                self.scheduler.abort_request(aborted)
            step.undo(self.scheduler)
            self.kv.block_pool.check_integrity()
            return {}
        scheduled = dict(step.output.num_scheduled_tokens)
        sampled = {
            each.request_id: [1]
            for each in step.output.scheduled_requests
            if self.scheduler.needs_sample(each, scheduled[each.request_id])
        }
        step.end_kv(self.kv, KVResult(connector=TransferReport(**report)))
        step.update(self.scheduler, sampled)
        self.kv.block_pool.check_integrity()
        return scheduled


def test_a_request_that_waits_for_its_load_holds_blocks_and_no_seat() -> None:
    world = World(Store(8))
    request = world.add("a", 9)
    assert world.step() == {}
    assert world.store.loads == [("a", ((1, 2),), 8)]
    assert world.kv.num_cached_blocks == 0, "nothing has arrived"
    assert world.scheduler.running == []
    assert world.step(finished_recving=["a"]) == {}
    assert world.step() == {"a": 1}
    assert world.kv.num_cached_blocks == 2
    assert world.step() == {"a": 1}
    assert request.finish_reason == "length"
    assert world.kv.num_free_blocks == world.kv.num_usable_blocks


def test_a_prompt_of_one_token_is_loaded_once() -> None:
    """vLLM 0.33.0 computes its last token again, so it has nothing, and is loaded again."""
    world = World(Store(1))
    world.add("a", 1)
    world.step(finished_recving=["a"])
    assert world.step() == {"a": 1}
    assert len(world.store.loads) == 1


def test_blocks_stay_until_they_are_read_and_their_name_is_taken_until_then() -> None:
    world = World(Store(0, keeps=True))
    world.add("a", 5, 1)
    world.step()
    assert world.store.finished == [("a", ((1, 2),))]
    assert world.scheduler.has_unfinished_requests()
    assert world.kv.num_free_blocks == world.kv.num_usable_blocks - 2
    with pytest.raises(DuplicateRequestError, match="'a' is still being transferred"):
        world.add("a", 5)
    world.step(finished_sending=["a", "nobody"])
    assert not world.scheduler.has_unfinished_requests()
    assert world.kv.num_free_blocks == world.kv.num_usable_blocks


def test_what_is_aborted_while_it_loads_keeps_its_blocks_until_the_load_has_ended() -> None:
    world = World(Store(8))
    world.add("a", 9)
    world.step()
    world.scheduler.abort_request("a")
    assert world.kv.num_free_blocks == world.kv.num_usable_blocks - 2
    world.step(finished_recving=["a"])
    assert world.kv.num_free_blocks == world.kv.num_usable_blocks
    world.step(finished_recving=["a"])  # told twice


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_a_block_that_did_not_arrive_is_never_found(policy: str, is_async: bool) -> None:
    world = World(Store(12, is_async), kv_load_failure_policy=policy)
    request = world.add("a", 13)
    first = world.step(**({} if is_async else {"invalid_block_ids": [2]}))
    assert bool(first) != is_async
    if is_async:
        world.step(invalid_block_ids=[2], finished_recving=["a"])
    if policy == "fail":
        assert request.finish_reason == "error"
        assert world.kv.num_free_blocks == world.kv.num_usable_blocks
    else:
        assert request.num_computed_tokens == 4
    assert world.kv.num_cached_blocks <= 1, "the block before it is right"
    if policy == "recompute":
        assert world.step() == {"a": 9}
        world.step()
        assert request.output_token_ids == [1, 1]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_load_of_a_step_that_failed_is_taken_back_and_promised_anew(is_async: bool) -> None:
    world = World(Store(8, is_async))
    first = world.add("a", 9)
    world.add("b", 9)
    world.step(fails=True)
    begun = [load[0] for load in world.store.loads]
    assert begun == (["a", "b"] if is_async else ["a"]), "b finds what is loaded for a"
    assert world.kv.num_free_blocks == world.kv.num_usable_blocks
    assert world.kv.num_cached_blocks == 0, "nobody knows what has arrived"
    assert [each.request_id for each in world.scheduler.waiting] == ["a", "b"]
    assert first.num_computed_tokens == 0
    world.step(**({"finished_recving": ["a", "b"]} if is_async else {}))
    assert [load[0] for load in world.store.loads] == 2 * begun
    for _ in range(2):
        world.step()
    assert first.output_token_ids == [1, 1]
    assert not world.scheduler.has_unfinished_requests()


@pytest.mark.parametrize("is_async", [False, True])
def test_what_is_aborted_in_a_step_that_fails_holds_nothing(is_async: bool) -> None:
    world = World(Store(8, is_async))
    world.add("a", 9)
    world.step(fails=True, aborted="a")
    assert not world.scheduler.has_unfinished_requests()
    assert world.kv.num_free_blocks == world.kv.num_usable_blocks
    assert world.kv.num_cached_blocks == 0


def test_a_step_that_fails_leaves_the_loads_of_earlier_ones_alone() -> None:
    world = World(Store(8))
    world.add("a", 9)
    world.step()
    world.step(fails=True)
    assert world.kv.num_free_blocks == world.kv.num_usable_blocks - 2
    world.step(finished_recving=["a"])
    assert world.step() == {"a": 1}
    assert len(world.store.loads) == 1


def test_what_nobody_knows_yet_is_passed_over() -> None:
    world = World(Store(None))
    world.add("a", 5)
    assert world.step() == {}
    world.store.ext = 0
    assert world.step() == {"a": 5}


def test_what_does_not_go_together_is_refused_by_name() -> None:
    with pytest.raises(InvalidParameterError, match="kv_load_failure_policy must be one of"):
        TransferKVCacheManager(9, 4, connector=Store(0), kv_load_failure_policy="hope")
    with pytest.raises(InvalidParameterError, match="decides as Scheduler does, got SequenceGroup"):
        with_transfers(SequenceGroupScheduler)
    kv = HybridTransferManager(
        9, 4, connector=Store(0), groups=(FullAttention(4),) * 2, max_num_batched_tokens=9
    )
    kv.end_step(KVResult(connector=TransferReport(invalid_block_ids=[3])))
    with pytest.raises(KVTransferError, match=r"blocks \[3\] were not loaded"):
        kv.step_ended({})
