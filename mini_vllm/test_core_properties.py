"""Laws of the core that hold after every operation, whatever came before: model-based tests with
tiny domains.

Three worlds, each an object of the core beside a simple model of it: BlockWorld (the pool),
CacheWorld (the KV cache manager), StepWorld (the scheduler). Their methods are operations, and
every operation ends in check(). Hypothesis looks for the shortest sequence of operations that
breaks a law; the slow test drives the same worlds a million times at random. Pools of a few blocks
of 2 slots, an alphabet of 2 tokens and 3 salts make hits, evictions, duplicates and preemptions
frequent. The numbers in comments, (1) to (34), are those of LAWS.

CORE_EXAMPLES=10 runs a tenth of the default (mutation testing does). Tests at length, here and
elsewhere, go a sixth of their way, unless NIGHTLY is set.
"""

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mini_vllm.block_pool import BlockPool, KVCacheBlock
from mini_vllm.errors import PromptTooLongError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import SamplingParams
from mini_vllm.policies.registry import make_scheduler
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerInterface, SchedulerOutput
from mini_vllm.step import KVPlan, KVResult

LAWS = {
    1: "the free queue reads the same from both ends, and knows its length",
    2: "every block is the null block, or free, or held",
    3: "ref_cnt is the number of block tables that hold the block",
    4: "the null block is never free, held, or cached",
    5: "the index finds exactly the blocks that have a hash",
    6: "what can be found is full and was written",
    7: "what is read holds the reader's own prefix, under its salt",
    8: "the longest cached prefix is found (positive control)",
    9: "a hit is whole blocks, and leaves a token to compute",
    10: "a lookup changes nothing",
    11: "a block that is touched is not free",
    12: "an allocation that fails changes nothing; it fails only if blocks are lacking",
    13: "a new block is held by nobody else",
    14: "a block table only grows, at its end",
    15: "a table has just the blocks that its tokens fill",
    16: "free blocks are taken in vLLM's order",
    17: "a block that is taken is forgotten; a reset forgets all, and is refused while anything is "
    "held",
    18: "freeing what holds nothing changes nothing",
    19: "different salts share nothing",
    21: "the token budget and max_num_seqs hold, and everybody scheduled computes something",
    22: "num_computed_tokens only grows, but for preemption, and stays below num_tokens",
    23: "every unfinished request is in waiting or in running, once",
    24: "as long as anybody is unfinished, every step computes something",
    25: "nobody is overtaken, and without arrivals all end in time",
    26: "what can never fit is refused at once",
    27: "the victim is the youngest, or the least urgent",
    28: "preemption, sharing and neighbours change no output (29)",
    30: "outputs end once, at the right token, and do not change after that",
    31: "num_cached_tokens and the statistics say what was found",
    32: "a request that was aborted holds nothing",
    33: "a step that failed leaves nothing behind",
    34: "when idle, everything is as in the beginning",
}

ALPHABET = 2
SALTS = (None, "a", "b")
EXAMPLES = int(os.environ.get("CORE_EXAMPLES", "100"))  # per cent
NIGHTLY = bool(os.environ.get("NIGHTLY"))
SETTINGS = settings(
    derandomize=True,
    database=None,
    deadline=None,
    stateful_step_count=50,
    suppress_health_check=list(HealthCheck),
)

Prefix = tuple[str | None, tuple[int, ...]]  # salt and tokens: what a slot, or a block, holds


def walk(pool: BlockPool) -> list[int]:
    """The free blocks, and on the way the laws of the queue."""
    queue = pool.free_queue
    ids = queue.block_ids()
    backwards = []
    block = queue._tail.prev_free_block
    while block is not None and block.block_id >= 0:
        backwards.append(block.block_id)
        block = block.prev_free_block
    assert block is queue._head
    assert backwards[::-1] == ids  # (1)
    assert len(set(ids)) == len(ids) == queue.num_free_blocks  # (1)
    return ids


def check_pool(pool: BlockPool, tables: Sequence[Sequence[int]]) -> None:
    free = set(walk(pool))
    holders = Counter(block_id for table in tables for block_id in table)
    for block in pool.blocks:
        assert block.ref_cnt == holders[block.block_id]  # (3)
        # (2, 11)
        assert (block.block_id in free) == (block.ref_cnt == 0 and block is not pool.null_block)
    null = pool.null_block
    assert (null.block_id, null.ref_cnt, null.block_hash) == (0, 0, None)  # (4)
    named = {
        (block.block_hash, block.block_id) for block in pool.blocks if block.block_hash is not None
    }
    # (5)
    assert {(name, block_id) for name, same in pool._cached.items() for block_id in same} == named
    assert all(same for same in pool._cached.values())  # (5)
    assert pool.num_cached_hashes == len({name for name, _ in named})  # (5)


def snapshot(pool: BlockPool) -> Any:
    """All state of a pool."""
    cached = [(name, list(same)) for name, same in pool._cached.items()]
    return (
        pool.free_queue.block_ids(),
        [(block.ref_cnt, block.block_hash) for block in pool.blocks],
        cached,
    )


# --- the pool -------------------------------------------------------------------------------------


class BlockWorld:
    """A pool, and a model of it made of lists: the free ids in order, the holders, the ids of each
    name in order.
    """

    def __init__(self, num_blocks: int = 9) -> None:
        self.pool = BlockPool(num_blocks)
        self.free = list(range(1, num_blocks))
        self.ref_cnt = [0] * num_blocks
        self.cached: dict[str, list[int]] = {}

    def forget(self, block_id: int) -> None:
        for name, same in list(self.cached.items()):
            if block_id in same:
                same.remove(block_id)
                if not same:
                    del self.cached[name]

    def name_of(self, block_id: int) -> str | None:
        return next((name for name, same in self.cached.items() if block_id in same), None)

    def blocks(self, ids: Sequence[int]) -> list[KVCacheBlock]:
        return [self.pool.blocks[i] for i in ids]

    def take(self, n: int) -> None:
        before = snapshot(self.pool)
        if n > len(self.free):
            with pytest.raises(ValueError, match="are free"):
                self.pool.get_new_blocks(n)
            assert snapshot(self.pool) == before  # (12)
            return
        taken, self.free = self.free[:n], self.free[n:]
        blocks = self.pool.get_new_blocks(n)
        assert [block.block_id for block in blocks] == taken  # (16)
        for block in blocks:
            assert (block.ref_cnt, block.block_hash) == (1, None)  # (13, 17)
            self.forget(block.block_id)
            self.ref_cnt[block.block_id] = 1
        self.check()

    def cache(self, choice: int, name: str) -> None:
        """Give a held block without a name one of a few names."""
        held = [i for i in range(len(self.ref_cnt)) if self.ref_cnt[i] and self.name_of(i) is None]
        if held:
            block_id = held[choice % len(held)]
            self.pool.cache_block(self.pool.blocks[block_id], name)
            self.cached.setdefault(name, []).append(block_id)
        self.check()

    def touch(self, name: str) -> None:
        """A hit, on a block that may be free."""
        block = self.pool.get_cached_block(name)
        assert (block.block_id if block else None) == self.cached.get(name, [None])[0]  # (8)
        if block:
            self.pool.touch([block])
            self.ref_cnt[block.block_id] += 1
            self.free = [i for i in self.free if i != block.block_id]
        self.check()

    def free_table(self, ids: Sequence[int]) -> None:
        """Let go of the held ones among ids, in that order."""
        table = [i for i in dict.fromkeys(ids) if self.ref_cnt[i]]
        self.pool.free_blocks(self.blocks(table))
        unheld = []
        for i in table[::-1]:
            self.ref_cnt[i] -= 1
            if not self.ref_cnt[i]:
                unheld.append(i)
        useless = [i for i in unheld if self.name_of(i) is None]
        self.free = useless + self.free + [i for i in unheld if i not in useless]  # (16)
        self.check()

    def uncache(self, block_id: int) -> None:
        self.pool.uncache_block(self.pool.blocks[block_id])
        self.forget(block_id)
        self.check()

    def uncache_name(self, name: str) -> None:
        self.pool.uncache_hash(name)
        self.cached.pop(name, None)
        self.check()

    def check(self) -> None:
        tables = [[i] * n for i, n in enumerate(self.ref_cnt)]
        check_pool(self.pool, tables)
        assert self.pool.free_queue.block_ids() == self.free  # (16)
        assert self.pool.num_free_blocks == len(self.free)
        # (5, 17)
        assert {name: list(same) for name, same in self.pool._cached.items()} == self.cached


NAMES = st.sampled_from("xyz")
BLOCK_IDS = st.integers(1, 8)


class BlockMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = BlockWorld()

    @rule(n=st.integers(0, 9))
    def take(self, n: int) -> None:
        self.world.take(n)

    @rule(choice=BLOCK_IDS, name=NAMES)
    def cache(self, choice: int, name: str) -> None:
        self.world.cache(choice, name)

    @rule(name=NAMES)
    def touch(self, name: str) -> None:
        self.world.touch(name)

    @rule(ids=st.lists(BLOCK_IDS, max_size=5))
    def free_table(self, ids: list[int]) -> None:
        self.world.free_table(ids)

    @rule(block_id=BLOCK_IDS)
    def uncache(self, block_id: int) -> None:
        self.world.uncache(block_id)

    @rule(name=NAMES)
    def uncache_name(self, name: str) -> None:
        self.world.uncache_name(name)


# --- the KV cache manager -------------------------------------------------------------------------


class Cache:
    """A KV cache manager with a shadow of every slot: which prefix was written there last."""

    def __init__(self, kv: KVCacheManager) -> None:
        self.kv = kv
        self.slots: dict[tuple[int, int], Prefix] = {}

    def write_and_read(self, requests: Sequence[tuple[Request, int]]) -> None:
        """A step in which each request computes so many tokens: all writes come first, then all
        reads.
        """
        size = self.kv.block_size
        for request, n in requests:
            table = self.kv.get_block_ids(request.request_id)
            for p in range(request.num_computed_tokens, request.num_computed_tokens + n):
                self.slots[table[p // size], p % size] = prefix(request, p + 1)
        for request, n in requests:
            table = self.kv.get_block_ids(request.request_id)
            for p in range(request.num_computed_tokens + n):
                assert self.slots[table[p // size], p % size] == prefix(request, p + 1)  # (7, 19)

    def content(self, name: Any) -> Prefix:
        """What a block of this name holds."""
        token_ids: tuple[int, ...] = ()
        while True:
            token_ids = name.token_ids + token_ids
            if name.parent is None:
                return name.cache_salt, token_ids
            name = name.parent

    def look_up(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        """get_computed_blocks, compared with a search through all blocks."""
        kv, size = self.kv, self.kv.block_size
        before = snapshot(kv.block_pool)
        blocks, num_computed = kv.get_computed_blocks(request)
        assert snapshot(kv.block_pool) == before  # (10)
        contents = {
            self.content(b.block_hash) for b in kv.block_pool.blocks if b.block_hash is not None
        }
        longest = 0
        while (
            longest + size <= request.num_tokens - 1 and prefix(request, longest + size) in contents
        ):
            longest += size
        assert num_computed == len(blocks) * size == longest  # (8, 9)
        for i, block in enumerate(blocks):
            assert self.content(block.block_hash) == prefix(request, (i + 1) * size)  # (7)
        return blocks, num_computed

    def check(self, unwritten: bool = False) -> None:
        """unwritten: a step is in flight, so that a block may be found that is not written yet."""
        kv, size = self.kv, self.kv.block_size
        check_pool(
            kv.block_pool, [[block.block_id for block in table] for table in kv._tables.values()]
        )
        num_held = sum(block.ref_cnt > 0 for block in kv.block_pool.blocks)
        assert kv.usage == pytest.approx(num_held / kv.num_usable_blocks)  # (4)
        for block in () if unwritten else kv.block_pool.blocks:
            if block.block_hash is not None:
                salt, token_ids = self.content(block.block_hash)
                held = [self.slots.get((block.block_id, offset)) for offset in range(size)]
                ends = range(len(token_ids) - size + 1, len(token_ids) + 1)
                assert held == [(salt, token_ids[:end]) for end in ends]  # (6, 33)


def prefix(request: Request, num_tokens: int) -> Prefix:
    return request.cache_salt, tuple(request.all_token_ids[:num_tokens])


class CacheWorld:
    """A manager that is used as a scheduler would, but in any order."""

    def __init__(
        self, num_blocks: int = 9, block_size: int = 2, enable_prefix_caching: bool = True
    ) -> None:
        self.kv = KVCacheManager(
            num_blocks, block_size, enable_prefix_caching=enable_prefix_caching
        )
        self.cache = Cache(self.kv)
        self.live: list[Request] = []
        self.num_requests = 0

    def pick(self, choice: int) -> Request | None:
        return self.live[choice % len(self.live)] if self.live else None

    def allocate(self, request: Request, n: int, blocks: Sequence[KVCacheBlock] = ()) -> bool:
        kv, pool = self.kv, self.kv.block_pool
        before, table = snapshot(pool), kv.get_block_ids(request.request_id)
        others = {i for r in self.live if r is not request for i in kv.get_block_ids(r.request_id)}
        num_tokens = request.num_computed_tokens + len(blocks) * kv.block_size + n
        needed = (
            -(-num_tokens // kv.block_size)
            - len(table)
            - sum(block.ref_cnt > 0 for block in blocks)
        )
        assert kv.num_blocks_needed(request, num_tokens, blocks) == max(needed, 0)
        new = kv.allocate_slots(request, n, blocks)
        assert (new is None) == (needed > len(before[0]))  # (12)
        if new is None:
            assert snapshot(pool) == before  # (12)
            assert kv.get_block_ids(request.request_id) == table
            return False
        new_ids = [block.block_id for block in new]
        hit_ids = [block.block_id for block in blocks]
        assert kv.get_block_ids(request.request_id) == table + hit_ids + new_ids  # (14)
        assert len(table + hit_ids + new_ids) == -(-num_tokens // kv.block_size)  # (15)
        assert all(block.ref_cnt == 1 for block in new)  # (13)
        assert not set(new_ids) & (others | set(table) | set(hit_ids))  # (13)
        assert new_ids == [i for i in before[0] if i not in hit_ids][: len(new_ids)]  # (16)
        return True

    def admit(self, prompt: Sequence[int], salt: str | None, chunk: int, written: bool) -> None:
        """written: False if the step is dropped after the allocation, as a preemption in the same
        step does.
        """
        request = Request(str(self.num_requests), prompt, SamplingParams(), cache_salt=salt)
        self.num_requests += 1
        blocks, num_computed = (
            self.cache.look_up(request) if self.kv.enable_prefix_caching else ([], 0)
        )
        n = min(chunk, request.num_tokens - num_computed)
        if self.allocate(request, n, blocks):
            request.num_computed_tokens = num_computed
            self.compute(request, n, written)
        self.check()

    def compute(self, request: Request, n: int, written: bool) -> None:
        if written:
            self.cache.write_and_read([(request, n)])
            request.num_computed_tokens += n
            if request not in self.live:
                self.live.append(request)
        else:
            self.kv.free(request)
            self.live = [r for r in self.live if r is not request]

    def grow(self, choice: int, n: int, token_id: int, written: bool) -> None:
        request = self.pick(choice)
        if request:
            if request.num_computed_tokens == request.num_tokens:
                request.append_output_token(token_id)
            n = min(n, request.num_tokens - request.num_computed_tokens)
            if self.allocate(request, n):
                self.compute(request, n, written)
        self.check()

    def free(self, choice: int, finished: bool) -> None:
        request = self.pick(choice)
        if request:
            if finished:
                request.status = RequestStatus.FINISHED_ABORTED
            self.kv.free(request)
            before = snapshot(self.kv.block_pool)
            self.kv.free(request)
            assert snapshot(self.kv.block_pool) == before  # (18)
            assert self.kv.get_block_ids(request.request_id) == []
            self.live.remove(request)
        self.check()

    def fail(self, choice: int, n: int) -> None:
        """A step is in flight for a request that is aborted meanwhile; then the step fails."""
        request = self.pick(choice)
        if (
            request
            and (n := min(n, request.num_tokens - request.num_computed_tokens))
            and self.allocate(request, n)
        ):
            request.status = RequestStatus.FINISHED_ABORTED
            self.kv.free(request)
            self.live.remove(request)
            self.kv.withdraw(request, n)
        self.check()

    def reset(self) -> None:
        before = snapshot(self.kv.block_pool)
        assert self.kv.reset_prefix_cache() == (not self.live)  # (17)
        if self.live:
            assert snapshot(self.kv.block_pool) == before  # (17)
        else:
            assert self.kv.num_cached_blocks == 0  # (17)
            assert self.kv.free_block_ids() == before[0]
        self.check()

    def check(self) -> None:
        self.cache.check()
        tables = {r.request_id: self.kv.get_block_ids(r.request_id) for r in self.live}
        assert set(self.kv._tables) == set(tables)  # (18, 34)
        for request in self.live:
            # (15)
            assert len(tables[request.request_id]) == -(
                -request.num_computed_tokens // self.kv.block_size
            )
        for one in self.live:
            for two in self.live:
                if one.cache_salt != two.cache_salt:
                    assert not set(tables[one.request_id]) & set(tables[two.request_id])  # (19)


TOKENS = st.integers(0, ALPHABET - 1)
PROMPTS = st.lists(TOKENS, min_size=1, max_size=9)
CHOICES = st.integers(0, 3)


class CacheMachine(RuleBasedStateMachine):
    @initialize(
        block_size=st.integers(1, 3),
        enable_prefix_caching=st.sampled_from((True, True, True, False)),
    )
    def begin(self, block_size: int, enable_prefix_caching: bool) -> None:
        self.world = CacheWorld(9, block_size, enable_prefix_caching)

    @rule(
        prompt=PROMPTS, salt=st.sampled_from(SALTS), chunk=st.integers(1, 9), written=st.booleans()
    )
    def admit(self, prompt: list[int], salt: str | None, chunk: int, written: bool) -> None:
        self.world.admit(prompt, salt, chunk, written)

    @rule(
        choice=CHOICES,
        n=st.integers(1, 4),
        token_id=TOKENS,
        written=st.sampled_from((True, True, False)),
    )
    def grow(self, choice: int, n: int, token_id: int, written: bool) -> None:
        self.world.grow(choice, n, token_id, written)

    @rule(choice=CHOICES, finished=st.booleans())
    def free(self, choice: int, finished: bool) -> None:
        self.world.free(choice, finished)

    @rule(choice=CHOICES, n=st.integers(1, 4))
    def fail(self, choice: int, n: int) -> None:
        self.world.fail(choice, n)

    @rule()
    def reset(self) -> None:
        self.world.reset()


# --- the scheduler --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Options:
    """What a scheduler is made with."""

    num_blocks: int = 9
    block_size: int = 2
    enable_prefix_caching: bool = True
    max_num_seqs: int = 3
    max_num_batched_tokens: int = 6
    long_prefill_token_threshold: int = 0
    enable_chunked_prefill: bool = True
    policy: str = "fcfs"
    max_model_len: int | None = None
    reserve_full_sequence: bool = True
    watermark: float = 0.0


DOMAINS: dict[str, tuple[Any, ...]] = {
    "num_blocks": (4, 6, 9, 9, 14),
    "block_size": (1, 2, 2, 3),
    "enable_prefix_caching": (True, True, False),
    "max_num_seqs": (1, 2, 3, 5),
    "max_num_batched_tokens": (1, 2, 4, 7, 12),
    "long_prefill_token_threshold": (0, 0, 1, 3),
    "enable_chunked_prefill": (True, True, False),
    "policy": ("fcfs", "priority"),
    "max_model_len": (None, 5, 9),
    "reserve_full_sequence": (True, False),
    "watermark": (0.0, 0.0, 0.2, 0.5),
}


def next_token(token_ids: Sequence[int]) -> int:
    """The fake model. It also says 2, at which most requests stop."""
    return hash((len(token_ids), *token_ids)) % 11 % (ALPHABET + 1)


def expected_outputs(request: Request) -> tuple[list[int], str]:
    """What the request generates when it is alone, and why it ends."""
    tokens, params = list(request.prompt_token_ids), request.sampling_params
    outputs: list[int] = []
    assert request.max_model_len is not None
    while True:
        outputs.append(next_token(tokens + outputs))
        if outputs[-1] in request.eos_token_ids and not params.ignore_eos:
            return outputs, "stop"
        if len(outputs) == params.max_tokens or len(tokens) + len(outputs) >= request.max_model_len:
            return outputs, "length"


@dataclass(slots=True)
class Found:
    """What the statistics should say."""

    requests: int = 0
    queries: int = 0
    hits: int = 0
    again: list[int] = field(default_factory=lambda: [0, 0, 0])


class StepWorld:
    """A scheduler, its cache and its model. A step is checked against what the rules allow, not by
    a copy of them.
    """

    def __init__(
        self,
        options: Options,
        scheduler_cls: type[SchedulerInterface] = Scheduler,
        **own_options: Any,
    ) -> None:
        self.options = options
        num_slots = (options.num_blocks - 1) * options.block_size
        budget = options.max_num_batched_tokens
        if not options.enable_chunked_prefill:
            budget = max(budget, min(options.max_model_len or num_slots, num_slots))
        self.budget = budget
        every_option = asdict(options) | {"max_num_batched_tokens": budget} | own_options
        self.scheduler = make_scheduler(every_option, scheduler_cls=scheduler_cls)
        self.kv = kv = self.scheduler.kv_cache_manager
        self.cache = Cache(kv)
        self.live: dict[str, Request] = {}
        self.num_requests = 0
        self.found = Found()
        self.plan = KVPlan()  # of the step in flight

    # operations

    def add(
        self,
        prompt: Sequence[int],
        salt: str | None,
        max_tokens: int,
        priority: int,
        ignore_eos: bool = False,
    ) -> None:
        request = Request(
            f"r{self.num_requests}",
            prompt,
            SamplingParams(max_tokens=max_tokens, ignore_eos=ignore_eos),
            eos_token_ids=(ALPHABET,),
            priority=priority,
            arrival_time=float(self.num_requests // 2),
            cache_salt=salt,
        )
        self.num_requests += 1
        if len(prompt) > min(
            self.scheduler.max_model_len, self.kv.num_usable_blocks * self.kv.block_size
        ):
            with pytest.raises(PromptTooLongError, match="at most"):
                self.scheduler.add_request(request)  # (26)
        else:
            self.scheduler.add_request(request)
            self.live[request.request_id] = request
        self.check()

    def step(self, aborts: Sequence[int] = ()) -> None:
        """One step, with requests that are aborted while the model runs."""
        scheduler = self.scheduler
        output = self.schedule()
        sampled = {
            r.request_id: [next_token(r.all_token_ids)]
            for r in output.scheduled_requests
            if scheduler.needs_sample(r, output.num_scheduled_tokens[r.request_id])
        }
        for choice in aborts:
            self.abort(choice, unwritten=True)
        self.cache_write(output)
        before = {r.request_id: r.num_computed_tokens for r in output.scheduled_requests}
        self.kv.end_step(KVResult())
        finished = scheduler.update_from_output(output, sampled)
        for request in output.scheduled_requests:
            if request.request_id in self.live:
                n = output.num_scheduled_tokens[request.request_id]
                assert request.num_computed_tokens == before[request.request_id] + n  # (22)
        # (30)
        assert finished == [
            r for r in output.scheduled_requests if r.request_id in self.live and r.is_finished
        ]
        for request in finished:
            # (28, 30)
            assert (request.output_token_ids, request.finish_reason) == expected_outputs(request)
            del self.live[request.request_id]
        self.check()

    def fail(self, aborts: Sequence[int] = ()) -> None:
        """A step that is scheduled and raises; nothing of it is written."""
        output = self.schedule()
        for choice in aborts:
            self.abort(choice, unwritten=True)
        self.scheduler.fail_step(output)
        self.kv.end_step(None)
        for request in output.scheduled_requests:
            if not request.is_finished:
                # (33)
                assert (request.status, request.num_computed_tokens) == (RequestStatus.PREEMPTED, 0)
        self.check()

    def abort(self, choice: int, unwritten: bool = False) -> None:
        if self.live:
            request_id = list(self.live)[choice % len(self.live)]
            outputs = list(self.live[request_id].output_token_ids)
            self.scheduler.abort_request(request_id)
            request = self.live.pop(request_id)
            assert self.kv.get_block_ids(request_id) == []  # (32)
            assert (request.finish_reason, request.output_token_ids) == ("abort", outputs)  # (30)
        self.check(unwritten)

    def drain(self) -> None:
        """Without arrivals: every request ends in time, and then nothing is left."""
        lengths = [r.num_prompt_tokens + r.sampling_params.max_tokens for r in self.live.values()]
        bound = sum(lengths) * (1 if self.options.policy == "fcfs" else 1 + len(lengths))
        for _ in range(bound):
            if not self.live:
                break
            self.step()
        assert not self.live  # (25)
        scheduler, kv = self.scheduler, self.kv
        assert not scheduler.has_unfinished_requests()  # (34)
        # (34)
        assert (list(scheduler.waiting), scheduler.running, scheduler._requests, kv._tables) == (
            [],
            [],
            {},
            {},
        )
        assert sorted(kv.free_block_ids()) == list(range(1, kv.num_blocks))  # (34)
        assert kv.reset_prefix_cache()
        assert kv.num_cached_blocks == 0  # (34)

    # what a step must look like

    def schedule(self) -> SchedulerOutput:
        scheduler, kv = self.scheduler, self.kv
        running, waiting = list(scheduler.running), list(scheduler.waiting)
        tables = {r.request_id: kv.get_block_ids(r.request_id) for r in running}
        computed = {r.request_id: r.num_computed_tokens for r in running}
        alone = len(self.live) == 1
        output = scheduler.schedule()
        self.plan = kv.begin_step()
        preempted = self.check_victims(output, running)
        stayed = [r for r in running if r not in preempted]
        admitted = scheduler.running[len(stayed) :]
        assert scheduler.running == stayed + admitted  # (23, 25)
        if preempted:
            assert not admitted
        assert waiting[: len(admitted)] == admitted  # (25)
        expected = waiting[len(admitted) :]
        if self.options.policy == "fcfs":
            expected = preempted[::-1] + expected
        else:
            expected = sorted(
                preempted + expected, key=lambda r: (r.priority, r.arrival_time, r.request_id)
            )
        assert list(scheduler.waiting) == expected  # (25)
        self.check_counts(output, alone)
        for request in stayed:
            table = kv.get_block_ids(request.request_id)
            assert table[: len(tables[request.request_id])] == tables[request.request_id]  # (14)
            assert request.num_computed_tokens == computed[request.request_id]  # (22)
        for request in admitted:
            self.check_hit(request)
        self.check_work_is_conserved(output, stayed, preempted)
        self.check(unwritten=True)
        return output

    def check_victims(self, output: SchedulerOutput, running: list[Request]) -> list[Request]:
        """(27)"""
        candidates, preempted = list(running), []
        for request_id in output.preempted_req_ids:
            victim = candidates[-1]
            if self.options.policy == "priority":
                victim = max(candidates, key=lambda r: (r.priority, r.arrival_time))
            assert victim.request_id == request_id
            assert len(candidates) > 1, "a request that is alone always fits"
            candidates.remove(victim)
            preempted.append(victim)
            # (22)
            assert (victim.status, victim.num_computed_tokens) == (RequestStatus.PREEMPTED, 0)
            assert self.kv.get_block_ids(request_id) == []
            assert request_id not in output.num_scheduled_tokens
        return preempted

    def check_counts(self, output: SchedulerOutput, alone: bool) -> None:
        options, counts = self.options, output.num_scheduled_tokens
        assert [r.request_id for r in output.scheduled_requests] == list(counts)
        assert output.total_num_scheduled_tokens == sum(counts.values()) <= self.budget  # (21)
        assert len(self.scheduler.running) <= options.max_num_seqs  # (21)
        assert bool(counts) == bool(self.live)  # (24)
        order = [r for r in self.scheduler.running if r.request_id in counts]
        assert order == output.scheduled_requests  # (25)
        for request in self.scheduler.running:
            n = counts.get(request.request_id, 0)
            behind = request.num_tokens - request.num_computed_tokens
            assert n <= behind  # (22)
            assert request.request_id not in counts or n >= 1  # (21)
            if options.long_prefill_token_threshold and not alone:
                assert n <= options.long_prefill_token_threshold
            num_slots = len(self.kv.get_block_ids(request.request_id)) * self.kv.block_size
            assert 0 <= num_slots - request.num_computed_tokens - n < self.kv.block_size  # (15)

    def check_hit(self, request: Request) -> None:
        """(31)"""
        hit = request.num_computed_tokens
        assert hit % self.kv.block_size == 0  # (9)
        assert hit < request.num_tokens  # (9)
        first = request.num_preemptions == 0
        if first:
            assert request.num_cached_tokens == hit
        if self.kv.enable_prefix_caching:
            if first:
                self.found.requests += 1
                self.found.queries += request.num_tokens
                self.found.hits += hit
            else:
                self.found.again = [
                    a + b
                    for a, b in zip(self.found.again, (1, request.num_tokens, hit), strict=True)
                ]
        else:
            assert hit == 0
        stats, again = (
            self.scheduler.prefix_cache_stats,
            self.scheduler.preempted_prefix_cache_stats,
        )
        if request is self.scheduler.running[-1]:
            assert (stats.requests, stats.queries, stats.hits) == (
                self.found.requests,
                self.found.queries,
                self.found.hits,
            )
            assert [again.requests, again.queries, again.hits] == self.found.again

    def check_work_is_conserved(
        self, output: SchedulerOutput, stayed: Sequence[Request], preempted: Sequence[Request]
    ) -> None:
        """No request idles beside a free budget or waits beside a free place: the positive control
        of admission.
        """
        scheduler, kv, options = self.scheduler, self.kv, self.options
        left = self.budget - output.total_num_scheduled_tokens
        # at most; after that nobody is asked again
        given_back = sum(r.num_tokens for r in preempted)
        if left > given_back:
            assert all(r.request_id in output.num_scheduled_tokens for r in stayed)
        if preempted:
            return
        if scheduler.waiting and left and len(scheduler.running) < options.max_num_seqs:
            head = scheduler.waiting[0]
            blocks, num_computed = self.cache.look_up(head) if kv.enable_prefix_caching else ([], 0)
            n = head.num_tokens - num_computed
            if options.long_prefill_token_threshold and len(self.live) > 1:
                n = min(n, options.long_prefill_token_threshold)
            if options.enable_chunked_prefill:
                n = min(n, left)
            num_tokens = head.num_tokens if options.reserve_full_sequence else num_computed + n
            held = sum(block.ref_cnt > 0 for block in blocks)
            spare = int(options.watermark * kv.num_blocks) if scheduler.running else 0
            lacks_blocks = -(-num_tokens // kv.block_size) - held + spare > kv.num_free_blocks
            assert lacks_blocks or n > left  # (24)

    def cache_write(self, output: SchedulerOutput) -> None:
        """The model runs. It also writes for those who were aborted meanwhile and have no table any
        more.
        """
        live = [r for r in output.scheduled_requests if r.request_id in self.live]
        for request in output.scheduled_requests:
            if request not in live:
                table, n = (
                    self.tables[request.request_id],
                    output.num_scheduled_tokens[request.request_id],
                )
                for p in range(request.num_computed_tokens, request.num_computed_tokens + n):
                    slot = table[p // self.kv.block_size], p % self.kv.block_size
                    self.cache.slots[slot] = prefix(request, p + 1)
        self.cache.write_and_read([(r, output.num_scheduled_tokens[r.request_id]) for r in live])

    def check(self, unwritten: bool = False) -> None:
        scheduler, kv = self.scheduler, self.kv
        self.cache.check(unwritten)
        if unwritten:
            tables = getattr(self, "tables", {})
            self.tables = tables | {i: kv.get_block_ids(i) for i in kv._tables}
        else:
            self.tables = {}
        places = [r.request_id for r in (*scheduler.waiting, *scheduler.running)]
        assert sorted(places) == sorted(self.live) == sorted(scheduler._requests)  # (23)
        assert set(kv._tables) == {r.request_id for r in scheduler.running}  # (23, 32)
        for request in scheduler.waiting:
            assert request.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED)  # (23)
            assert request.num_computed_tokens == 0
        for request in scheduler.running:
            assert request.status is RequestStatus.RUNNING  # (23)
            assert 0 <= request.num_computed_tokens < request.num_tokens  # (22)
            # (30)
            assert request.all_token_ids == request.prompt_token_ids + request.output_token_ids
            # (28)
            assert (
                request.output_token_ids
                == expected_outputs(request)[0][: len(request.output_token_ids)]
            )


ABORTS = st.lists(CHOICES, max_size=2)


class SchedulerMachine(RuleBasedStateMachine):
    """What can happen to the scheduler of any world, beside arrivals. The world is begun by who
    inherits this.
    """

    world: Any

    @rule(aborts=ABORTS)
    def step_with_aborts(self, aborts: list[int]) -> None:
        self.world.step(aborts)

    @rule()
    def step(self) -> None:
        self.world.step()

    @rule(aborts=ABORTS)
    def fail(self, aborts: list[int]) -> None:
        self.world.fail(aborts)

    @rule(choice=CHOICES)
    def abort(self, choice: int) -> None:
        self.world.abort(choice)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()


class StepMachine(SchedulerMachine):
    @initialize(
        options=st.builds(
            Options, **{name: st.sampled_from(domain) for name, domain in DOMAINS.items()}
        )
    )
    def begin(self, options: Options) -> None:
        self.world = StepWorld(options)

    @precondition(lambda self: len(self.world.live) < 6)
    @rule(
        prompt=PROMPTS,
        salt=st.sampled_from(SALTS),
        max_tokens=st.integers(1, 9),
        priority=st.integers(0, 2),
        ignore_eos=st.booleans(),
    )
    def add(
        self, prompt: list[int], salt: str | None, max_tokens: int, priority: int, ignore_eos: bool
    ) -> None:
        self.world.add(prompt, salt, max_tokens, priority, ignore_eos)


# --- the tests ------------------------------------------------------------------------------------


def explore(machine: type[RuleBasedStateMachine], max_examples: int) -> None:
    run_state_machine_as_test(
        machine, settings=settings(SETTINGS, max_examples=max(1, max_examples * EXAMPLES // 100))
    )


def a_sixth(number: int) -> int:
    """Of what a test at length repeats; all of it where NIGHTLY is set."""
    return number if NIGHTLY else number // 6


def test_laws_of_the_block_pool() -> None:
    explore(BlockMachine, 50)


def test_laws_of_the_kv_cache_manager() -> None:
    explore(CacheMachine, 60)


def test_laws_of_the_scheduler() -> None:
    explore(StepMachine, 90)


def drive_blocks(rng: random.Random, num_operations: int) -> None:
    world = BlockWorld(rng.choice((2, 5, 9)))
    last = len(world.ref_cnt) - 1
    for _ in range(num_operations):
        operation, name, block_id = rng.randrange(6), rng.choice("xyz"), rng.randint(1, last)
        if operation == 0:
            world.take(rng.randint(0, last))
        elif operation == 1:
            world.cache(block_id, name)
        elif operation == 2:
            world.touch(name)
        elif operation == 3:
            world.free_table([rng.randint(1, last) for _ in range(rng.randint(0, 5))])
        elif operation == 4:
            world.uncache(block_id)
        else:
            world.uncache_name(name)


def random_prompt(rng: random.Random) -> list[int]:
    return [rng.randrange(ALPHABET) for _ in range(rng.randint(1, 9))]


def drive_cache(rng: random.Random, num_operations: int) -> None:
    world = CacheWorld(rng.choice((4, 9, 14)), rng.randint(1, 3), rng.random() < 0.8)
    for _ in range(num_operations):
        operation, choice, written = rng.random(), rng.randrange(4), rng.random() < 0.7
        if operation < 0.35:
            world.admit(random_prompt(rng), rng.choice(SALTS), rng.randint(1, 9), written)
        elif operation < 0.7:
            world.grow(choice, rng.randint(1, 4), rng.randrange(ALPHABET), written)
        elif operation < 0.85:
            world.free(choice, rng.random() < 0.5)
        elif operation < 0.95:
            world.fail(choice, rng.randint(1, 4))
        else:
            world.reset()


def drive_steps(rng: random.Random, num_operations: int) -> None:
    world = StepWorld(Options(**{name: rng.choice(values) for name, values in DOMAINS.items()}))
    for _ in range(num_operations):
        operation = rng.random()
        aborts = [rng.randrange(4) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
        if operation < 0.3 and len(world.live) < 6:
            salt, ignore_eos = rng.choice(SALTS), rng.random() < 0.5
            world.add(random_prompt(rng), salt, rng.randint(1, 9), rng.randrange(3), ignore_eos)
        elif operation < 0.85:
            world.step(aborts)
        elif operation < 0.92:
            world.fail(aborts)
        else:
            world.abort(rng.randrange(4))
    world.drain()


@pytest.mark.slow
@pytest.mark.parametrize("drive", [drive_blocks, drive_cache, drive_steps])
def test_laws_hold_for_long(drive: Callable[[random.Random, int], None]) -> None:
    """At night a third of a million each: 100 operations a world. The message has a failure's
    seed.
    """
    for seed in range(a_sixth(1_000_000 // 3 // 100 + 1)):
        try:
            drive(random.Random(seed), 100)
        except Exception as error:
            raise AssertionError(
                f"{drive.__name__}(random.Random({seed}), 100) breaks a law"
            ) from error
