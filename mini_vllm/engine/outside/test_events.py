"""What is published mirrors the prefix cache, whatever the scheduler does."""

import random
from collections.abc import Hashable
from socket import socket
from typing import Any

import pytest

from mini_vllm.block_hash import sha256_block_hash
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.outside.events import AllBlocksCleared, BlockRemoved, BlockStored, CacheWatch
from mini_vllm.engine.outside.publisher import KVEventsConfig, ZmqPublisher, as_map
from mini_vllm.errors import InvalidParameterError, UnknownParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler
from mini_vllm.scheduler_interface import Step
from mini_vllm.step import KVResult

BLOCK = 2


class Mirror:
    """What a router knows: by digest, the tokens of a block and the block before it."""

    def __init__(self) -> None:
        self.blocks: dict[bytes, tuple[bytes | None, tuple[int, ...]]] = {}
        self.num_removed = 0

    def take(self, events: list[Any]) -> None:
        for event in events:
            if isinstance(event, BlockStored):
                assert len(event.token_ids) == len(event.block_hashes) * event.block_size
                parent = event.parent_block_hash
                for i, digest in enumerate(event.block_hashes):
                    tokens = tuple(event.token_ids[i * BLOCK : (i + 1) * BLOCK])
                    assert digest not in self.blocks, "it is told once"
                    self.blocks[digest] = parent, tokens
                    parent = digest
            elif isinstance(event, BlockRemoved):
                for digest in event.block_hashes:
                    del self.blocks[digest]
                    self.num_removed += 1


def cached(kv: KVCacheManager) -> dict[Hashable, int]:
    """The names that lookups find."""
    return {
        block.block_hash: block.block_id
        for block in kv.block_pool.blocks
        if block.block_hash is not None
    }


@pytest.mark.parametrize("hash_function", ["exact", "sha256"])
@pytest.mark.parametrize("seed", range(3))
def test_a_router_knows_what_is_cached_after_every_step(seed: int, hash_function: str) -> None:
    rng, mirror = random.Random(seed), Mirror()
    kv = KVCacheManager(12, BLOCK, hash_function=hash_function)
    scheduler = Scheduler(kv, max_num_seqs=4, max_num_batched_tokens=9)
    watch = CacheWatch(kv)
    num_preempted = num_failed = 0
    for number in range(160):
        if rng.random() < 0.4 and len(scheduler.waiting) < 3:
            prompt = [*range(rng.choice((2, 4, 6, 8))), *(rng.randrange(3) for _ in range(4))]
            given = SamplingParams(max_tokens=rng.randrange(1, 9), ignore_eos=True)
            scheduler.add_request(Request(f"{number}", prompt, given))
        if scheduler.running and rng.random() < 0.1:
            name = rng.choice(scheduler.running).request_id
            scheduler.abort_request(name)
            watch.gone([name])
        step = Step.decide(scheduler)
        mirror.take(watch.decided(step.output))
        num_preempted += len(step.output.preempted_req_ids)
        if rng.random() < 0.1:
            step.undo(scheduler)
            watch.gone([request.request_id for request in step.requests])
            mirror.take(watch.audit())
            num_failed += 1
        else:
            step.end_kv(kv, KVResult())
            sampled = {
                request.request_id: [rng.randrange(3)]
                for request in step.requests
                if scheduler.needs_sample(
                    request, step.output.num_scheduled_tokens[request.request_id]
                )
            }
            watch.gone([each.request_id for each in step.update(scheduler, sampled)])
        assert len(mirror.blocks) == len(cached(kv))
        for digest, (parent, tokens) in mirror.blocks.items():
            assert digest == sha256_block_hash(parent, tokens, None)
        if hash_function == "sha256":
            assert mirror.blocks.keys() == cached(kv).keys()
    assert num_preempted > 0 < num_failed
    assert mirror.num_removed > 0


def test_events_are_what_vllm_writes() -> None:
    digests = [bytes(24) + bytes([0, 0, 0, 0, 0, 0, 1, i]) for i in range(2)]
    assert as_map(BlockStored(digests, None, [1, 2, 3, 4], 2)) == {
        "type": "BlockStored",
        "block_hashes": [256, 257],
        "parent_block_hash": None,
        "token_ids": [1, 2, 3, 4],
        "block_size": 2,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }
    removed = {"type": "BlockRemoved", "block_hashes": [256], "medium": "GPU"}
    assert as_map(BlockRemoved(digests[:1])) == removed
    assert as_map(AllBlocksCleared()) == {"type": "AllBlocksCleared"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endpoint": "5557"}, "endpoint must be tcp://ADDRESS:PORT"),
        ({"publisher": "null"}, "publisher must be one of"),
        ({"enable_kv_cache_events": False}, "enable_kv_cache_events must be true"),
        ({"buffer_steps": 0}, "buffer_steps must be an integer"),
        ({"topic": "\ud800"}, "topic must be a text that UTF-8 can write"),
        ({"endpoint": "ipc://\ud800"}, "endpoint must be tcp://ADDRESS:PORT"),
        ({"cls": 1}, "unknown parameter 'cls'"),
    ],
)
def test_wrong_options_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidParameterError, UnknownParameterError), match=message):
        KVEventsConfig(**options)


@pytest.mark.parametrize("name", ["kv_events_config", "kv_transfer_config"])
def test_options_have_names(name: str) -> None:
    for wrong in (5, "zmq", {1: 2}):
        with pytest.raises(InvalidParameterError, match=f"{name} must be None or values by name"):
            EngineConfig("tiny", **{name: wrong})


def test_the_endpoints_of_an_engine_are_free_when_it_has_ended() -> None:
    pytest.importorskip("zmq")
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    config = EngineConfig(
        "tiny", device="cpu", num_kv_blocks=10, kv_events_config={"endpoint": endpoint}
    )
    for _ in range(2):
        engine = LLMEngine(config)
        with pytest.raises(InvalidParameterError, match="cannot be opened"):
            ZmqPublisher(KVEventsConfig(endpoint=endpoint))
        engine.shutdown()
