"""Which blocks hold whose tokens: hashing, lookup, allocation, release, eviction."""

import copy
import hashlib
import struct
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mini_vllm.block_hash import ExactBlockHash, sha256_block_hash
from mini_vllm.errors import InvalidParameterError, KVCacheTooSmallError
from mini_vllm.kv_cache import KVCacheManager, PrefixCacheStats
from mini_vllm.observe.trace import run_trace
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request, RequestStatus

GOLDEN = (
    "2a95ce31ee5bf80b77a756040e45d5ac122d73079b8a21bc1c2f74e9bb55f0b5",
    "265ac6f36818abd57261c6d836e31a21d65f4f917cb89131b85afa44832661f2",
    "e88e14129357cb689cfc1a43da6ae2693da59b5ccdde97b4bc228e2b3e815586",
    "eef354cfaa5dece80ac82e1a5ccda99d64cb7911edd3d289bd12bd47508abef4",
)
BLOCK = 4  # block size of all managers below, unless they say otherwise


def make_manager(num_blocks: int = 11, block_size: int = BLOCK, **options: Any) -> KVCacheManager:
    return KVCacheManager(num_blocks, block_size, **options)


def make_request(request_id: str, prompt: Sequence[int], **options: Any) -> Request:
    return Request(request_id, prompt, SamplingParams(), **options)


def compute(kv: KVCacheManager, request: Request, num_tokens: int | None = None) -> list[int]:
    """Admit a request and compute its first num_tokens tokens (all by default); returns its block
    table.
    """
    blocks, num_computed = kv.get_computed_blocks(request)
    num_new_tokens = (request.num_tokens if num_tokens is None else num_tokens) - num_computed
    assert kv.allocate_slots(request, num_new_tokens, blocks) is not None
    request.num_computed_tokens = num_computed + num_new_tokens
    return kv.get_block_ids(request.request_id)


def decode(kv: KVCacheManager, request: Request, token_id: int = 7) -> None:
    """One token more, as after a step that sampled one: it is appended, then it gets its slot."""
    request.append_output_token(token_id)
    assert kv.allocate_slots(request, 1) is not None
    request.num_computed_tokens += 1


def finish(kv: KVCacheManager, request: Request) -> None:
    request.status = RequestStatus.FINISHED_STOPPED
    kv.free(request)


def hit_ids(kv: KVCacheManager, request: Request) -> list[int]:
    return [block.block_id for block in kv.get_computed_blocks(request)[0]]


def state(kv: KVCacheManager) -> list[Any]:
    """Everything that an operation which changes nothing must leave alone."""
    pool = kv.block_pool
    return [
        kv.free_block_ids(),
        kv.num_free_blocks,
        [(block.ref_cnt, block.block_hash) for block in pool.blocks],
        {block_hash: list(same) for block_hash, same in pool._cached.items()},
        {
            request_id: [block.block_id for block in table]
            for request_id, table in kv._tables.items()
        },
    ]


# --- names of blocks ------------------------------------------------------------------------------


def chain(
    hash_block: Callable[..., Any], token_ids: Sequence[int], salt: str | None = None
) -> list[Any]:
    hashes: list[Any] = []
    for i in range(0, len(token_ids) - BLOCK + 1, BLOCK):
        block = tuple(token_ids[i : i + BLOCK])
        hashes.append(
            hash_block(hashes[-1], block, None) if hashes else hash_block(None, block, salt)
        )
    return hashes


both_hashes = pytest.mark.parametrize(
    "hash_block", [ExactBlockHash, sha256_block_hash], ids=["exact", "sha256"]
)


@both_hashes
def test_equal_prefixes_have_equal_names(hash_block: Callable[..., Any]) -> None:
    one, two = (chain(hash_block, list(range(12))) for _ in range(2))
    assert one == two
    assert [hash(name) for name in one] == [hash(name) for name in two]
    assert len(set(one + two)) == 3


@both_hashes
def test_any_difference_in_the_prefix_changes_the_name(hash_block: Callable[..., Any]) -> None:
    tokens = list(range(12))
    names = {chain(hash_block, tokens)[-1]}
    for position in range(12):
        names.add(chain(hash_block, [*tokens[:position], 99, *tokens[position + 1 :]])[-1])
    names.add(chain(hash_block, tokens, salt="")[-1])
    names.add(chain(hash_block, tokens, salt="tenant")[-1])
    names.add(chain(hash_block, tokens[4:])[-1])
    names.add(chain(hash_block, [*tokens, 12, 13, 14, 15])[-1])
    assert len(names) == 1 + 12 + 4
    assert len({hash(name) for name in names}) == len(names), "a collision would cost time"


def test_an_exact_name_is_equal_to_nothing_else() -> None:
    name = ExactBlockHash(None, (1, 2), None)
    assert name != "a name"
    assert name != (None, (1, 2), None)


class CollidingToken(int):
    """A token id whose hash is that of every other one."""

    __eq__ = int.__eq__

    def __hash__(self) -> int:
        return 0


def test_exact_names_of_equal_hash_are_told_apart() -> None:
    """Also when every hash collides, the tokens, the salt and the whole chain make the name."""
    one, two, three, five = map(CollidingToken, (1, 2, 3, 5))
    first = ExactBlockHash(None, (one, two), None)
    assert first == ExactBlockHash(None, (one, two), None)
    assert first != ExactBlockHash(None, (two, one), None)
    assert first != ExactBlockHash(None, (one, two), "salt")
    assert ExactBlockHash(first, (five,), None) != ExactBlockHash(None, (five,), None)
    other = ExactBlockHash(None, (three,), None)
    assert ExactBlockHash(first, (five,), None) != ExactBlockHash(other, (five,), None)
    assert ExactBlockHash(first, (five,), None) == ExactBlockHash(
        ExactBlockHash(None, (one, two), None), (five,), None
    )
    deep = [
        chain(ExactBlockHash, [CollidingToken(i) for i in (a, *range(1, 12))]) for a in (0, 0, 9)
    ]
    assert deep[0][-1] == deep[1][-1] != deep[2][-1]


def test_a_name_goes_with_the_last_who_holds_it() -> None:
    # names are shared: of tokens that no other test has
    names = chain(ExactBlockHash, range(10**9, 10**9 + 12))
    content = weakref.ref(names[0])
    assert copy.deepcopy(names) == names
    del names[0]
    assert content() is not None  # its children hold it
    names.clear()
    assert content() is None


def test_sha256_names_are_these_bytes() -> None:
    """Golden bytes: names may be kept on disk or sent to other processes, so they must not
    change.
    """
    first = sha256_block_hash(None, (1, 2, 3, 4), None)
    assert first.hex() == GOLDEN[0]
    assert sha256_block_hash(first, (5, 6, 7, 8), None).hex() == GOLDEN[1]
    assert sha256_block_hash(None, (1, 2, 3, 4), "tenant").hex() == GOLDEN[2]
    assert sha256_block_hash(None, (1, 2, 3, 4), "").hex() == GOLDEN[3]


def test_sha256_names_follow_their_definition() -> None:
    root = hashlib.sha256(b"root:salt:tenant").digest()
    expected = hashlib.sha256(b"block:" + root + struct.pack("<4q", 1, 2, 3, 2**40)).digest()
    assert sha256_block_hash(None, (1, 2, 3, 2**40), "tenant") == expected


@both_hashes
def test_a_salt_may_be_any_string(hash_block: Callable[..., Any]) -> None:
    """A lone surrogate is valid in JSON; one request with it must not stop every request in
    schedule().
    """
    salts = ["", "\ud800", "\udfff", "?", "\N{SNOWMAN}"]
    assert len({hash_block(None, (1, 2), salt) for salt in salts}) == len(salts)


def test_only_full_blocks_are_named_and_each_once() -> None:
    kv = make_manager()
    request = make_request("a", range(10))
    kv.get_computed_blocks(request)
    assert len(request.block_hashes) == 2
    before = list(request.block_hashes)
    for token_id in (10, 11):
        request.append_output_token(token_id)
    kv.get_computed_blocks(request)
    assert len(request.block_hashes) == 3
    assert all(mine is old for mine, old in zip(request.block_hashes, before, strict=False))
    assert request.block_hashes == chain(ExactBlockHash, range(12))


@pytest.mark.parametrize("hash_function", ["exact", "sha256"])
def test_the_manager_names_blocks_with_the_function_it_was_told(hash_function: str) -> None:
    kv = make_manager(hash_function=hash_function)
    request = make_request("a", range(9), cache_salt="tenant")
    kv.get_computed_blocks(request)
    hash_block = {"exact": ExactBlockHash, "sha256": sha256_block_hash}[hash_function]
    assert request.block_hashes == chain(hash_block, range(8), "tenant")


# --- the constructor ------------------------------------------------------------------------------


def test_limits_of_the_constructor() -> None:
    with pytest.raises(KVCacheTooSmallError, match=r"num_blocks must be at least 2 .*, got 1"):
        KVCacheManager(1, 4)
    with pytest.raises(InvalidParameterError, match="block_size must be at least 1, got 0"):
        KVCacheManager(2, 0)
    with pytest.raises(
        InvalidParameterError,
        match=r"hash_function must be one of \['exact', 'sha256'\], got 'md5'",
    ):
        KVCacheManager(2, 4, hash_function="md5")
    kv = KVCacheManager(2, 1)
    assert (kv.num_blocks, kv.block_size, kv.enable_prefix_caching) == (2, 1, True)
    assert compute(kv, make_request("a", [1])) == [1]


def test_the_null_block_is_not_counted() -> None:
    kv = make_manager(num_blocks=5)
    assert (kv.num_blocks, kv.num_usable_blocks, kv.num_free_blocks) == (5, 4, 4)
    assert kv.usage == 0
    compute(kv, make_request("a", range(4)))
    assert kv.usage == 0.25
    compute(kv, make_request("b", range(100, 112)))
    assert kv.usage == 1
    assert 0 not in kv.get_block_ids("a") + kv.get_block_ids("b") + kv.free_block_ids()


# --- lookup ---------------------------------------------------------------------------------------


def test_a_prefix_is_found_up_to_its_first_difference() -> None:
    kv = make_manager()
    assert compute(kv, make_request("a", range(12))) == [1, 2, 3]
    same_8 = make_request("b", [*range(8), 99, 9, 10, 11, 12])
    blocks, num_computed = kv.get_computed_blocks(same_8)
    assert ([block.block_id for block in blocks], num_computed) == ([1, 2], 8)
    assert hit_ids(kv, make_request("c", [99, *range(1, 12)])) == []


def test_lookup_changes_nothing() -> None:
    kv = make_manager()
    finished = make_request("a", range(8))
    compute(kv, finished)
    finish(kv, finished)
    compute(kv, make_request("b", range(12)))
    before = state(kv)
    twice = [kv.get_computed_blocks(make_request("c", range(13))) for _ in range(2)]
    assert twice[0] == twice[1]
    assert twice[0][1] == 12
    assert state(kv) == before


def test_lookup_looks_at_outputs_too() -> None:
    """A preempted request finds what it had generated, not only its prompt."""
    kv = make_manager()
    request = make_request("a", range(6))
    compute(kv, request)
    for token_id in (6, 7, 8):
        decode(kv, request, token_id)
    kv.free(request)
    request.num_computed_tokens = 0
    assert kv.get_computed_blocks(request)[1] == 8


def test_without_prefix_caching_nothing_is_found_or_named() -> None:
    kv = make_manager(enable_prefix_caching=False)
    request = make_request("a", range(12))
    compute(kv, request)
    finish(kv, request)
    assert kv.get_computed_blocks(make_request("b", range(12))) == ([], 0)
    assert kv.num_cached_blocks == 0
    assert request.block_hashes == []


@pytest.mark.parametrize("num_tokens", [4, 8, 12])
def test_trap_11_full_prefix_hit_still_computes_one_token(num_tokens: int) -> None:
    """The last token's logits are needed, so at most num_tokens - 1 are taken, and the last block
    is computed again.
    """
    kv = make_manager()
    compute(kv, make_request("a", range(num_tokens)))
    assert kv.get_computed_blocks(make_request("b", range(num_tokens)))[1] == num_tokens - BLOCK
    assert kv.get_computed_blocks(make_request("c", range(num_tokens + 1)))[1] == num_tokens


def test_trap_13_a_partial_block_is_never_shared() -> None:
    kv = make_manager()
    compute(kv, make_request("a", [1, 2, 3, 4, 5, 6, 7]))
    assert kv.num_cached_blocks == 1
    assert hit_ids(kv, make_request("b", [1, 2, 3, 4, 5, 6, 7, 8, 9])) == [1]
    assert hit_ids(kv, make_request("c", [1, 2, 3, 0, 0])) == []


def test_trap_14_equal_blocks_at_other_positions_are_not_shared() -> None:
    kv = make_manager()
    x, y = [1, 1, 1, 1], [2, 2, 2, 2]
    compute(kv, make_request("a", x + y + x + y))
    assert hit_ids(kv, make_request("b", y + x + [3])) == []
    assert hit_ids(kv, make_request("c", x + x + [3])) == [1]
    assert hit_ids(kv, make_request("d", x + y + x + [3])) == [1, 2, 3]


@pytest.mark.parametrize("hash_function", ["exact", "sha256"])
def test_trap_15_salts_keep_tenants_apart(hash_function: str) -> None:
    kv = make_manager(num_blocks=30, hash_function=hash_function)
    salts = [None, "", "a", "b"]
    for i, salt in enumerate(salts):
        request = make_request(f"first {i}", range(9), cache_salt=salt)
        assert hit_ids(kv, request) == [], "another salt must not share"
        compute(kv, request)
    for i, salt in enumerate(salts):
        again = make_request("again", range(9), cache_salt=salt)
        assert hit_ids(kv, again) == kv.get_block_ids(f"first {i}")[:2], "the same salt must share"


def test_trap_17_evicted_content_is_not_found() -> None:
    kv = make_manager(num_blocks=4)
    request = make_request("a", range(12))
    compute(kv, request)
    finish(kv, request)
    compute(kv, make_request("b", range(100, 112)))
    assert hit_ids(kv, make_request("a again", range(12))) == []
    assert hit_ids(kv, make_request("b again", range(100, 113))) == [3, 2, 1]


# --- allocation -----------------------------------------------------------------------------------


def test_blocks_are_handed_out_in_order() -> None:
    kv = make_manager()
    assert compute(kv, make_request("a", range(5))) == [1, 2]
    assert compute(kv, make_request("b", range(100, 112))) == [3, 4, 5]
    assert kv.free_block_ids() == [6, 7, 8, 9, 10]
    assert kv.get_block_ids("nobody") == []


@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 16])
def test_trap_05_a_table_of_n_tokens_has_ceil_n_over_block_size_blocks(block_size: int) -> None:
    for num_prompt_tokens in range(1, 3 * block_size + 2):
        kv = make_manager(num_blocks=10 * block_size, block_size=block_size)
        request = make_request("a", range(num_prompt_tokens))
        compute(kv, request)
        for _ in range(2 * block_size + 1):
            table = kv.get_block_ids("a")
            assert len(table) == -(-request.num_tokens // block_size)
            decode(kv, request)
            assert kv.get_block_ids("a")[: len(table)] == table, "a table only grows at its end"


def test_a_new_block_is_taken_only_when_the_last_one_is_full() -> None:
    kv = make_manager()
    request = make_request("a", range(3))
    new = kv.allocate_slots(request, 3)
    assert [block.block_id for block in new or []] == [1]
    request.num_computed_tokens = 3
    request.append_output_token(3)
    assert kv.allocate_slots(request, 1) == []
    request.num_computed_tokens = 4
    request.append_output_token(4)
    new = kv.allocate_slots(request, 1)
    assert [block.block_id for block in new or []] == [2]
    assert new is not None
    assert (new[0].ref_cnt, new[0].block_hash) == (1, None)


def test_a_prompt_can_be_allocated_chunk_by_chunk() -> None:
    kv = make_manager()
    request = make_request("a", range(10))
    for num_new_tokens, num_blocks, num_cached in ((3, 1, 0), (3, 2, 1), (4, 3, 2)):
        assert kv.allocate_slots(request, num_new_tokens) is not None
        request.num_computed_tokens += num_new_tokens
        assert len(kv.get_block_ids("a")) == num_blocks
        assert kv.num_cached_blocks == num_cached
    assert hit_ids(kv, make_request("b", range(10))) == [1, 2]


def test_hits_are_shared_and_the_rest_is_new() -> None:
    kv = make_manager()
    compute(kv, make_request("a", range(9)))
    request = make_request("b", [*range(8), 98, 99])
    blocks, _ = kv.get_computed_blocks(request)
    new = kv.allocate_slots(request, 2, blocks)
    assert [block.block_id for block in new or []] == [4], (
        "the shared blocks are not among the new ones"
    )
    assert kv.get_block_ids("b") == [1, 2, 4]
    assert [block.ref_cnt for block in kv.block_pool.blocks[1:5]] == [2, 2, 1, 1]


def test_the_chunk_after_a_hit_publishes_its_own_blocks_only() -> None:
    kv = make_manager()
    compute(kv, make_request("a", range(8)))
    request = make_request("b", [*range(8), *range(50, 55)])
    compute(kv, request)
    assert kv.num_cached_blocks == 3
    assert hit_ids(kv, make_request("c", [*range(8), *range(50, 55)])) == [1, 2, 3]


def test_free_hits_come_out_of_the_queue_before_new_blocks_are_taken() -> None:
    """The content that is hit must not be evicted to make room for the rest of the same request."""
    kv = make_manager(num_blocks=4)
    request = make_request("a", range(12))
    compute(kv, request)
    finish(kv, request)
    assert kv.free_block_ids() == [3, 2, 1]
    assert compute(kv, make_request("b", [*range(8), 98])) == [1, 2, 3]
    assert kv.num_free_blocks == 0


def test_num_blocks_needed_counts_hits_that_nobody_holds() -> None:
    kv = make_manager()
    request = make_request("a", range(12))
    compute(kv, request)
    other = make_request("b", [*range(8), 99])
    blocks, _ = kv.get_computed_blocks(other)
    assert kv.num_blocks_needed(other, 9) == 3
    assert kv.num_blocks_needed(other, 9, blocks) == 1, "the hits are held by a"
    finish(kv, request)
    assert kv.num_blocks_needed(other, 9, blocks) == 3, "the hits would leave the free queue"
    assert kv.num_blocks_needed(other, 8, blocks) == 2
    compute(kv, other)
    assert [kv.num_blocks_needed(other, n) for n in (1, 9, 12, 13, 17)] == [0, 0, 0, 1, 2]


def test_trap_06_hits_that_nobody_holds_are_counted_once() -> None:
    """b needs 3 blocks, 2 of which are free hits: 3 free blocks are exactly enough, 2 are not."""
    for num_blocks, fits in ((4, True), (3, False)):
        kv = make_manager(num_blocks=num_blocks)
        request = make_request("a", range(8))
        compute(kv, request)
        finish(kv, request)
        other = make_request("b", range(12))
        blocks, num_computed = kv.get_computed_blocks(other)
        assert num_computed == 8
        before = state(kv)
        assert (kv.allocate_slots(other, 4, blocks) is not None) == fits
        assert (state(kv) == before) == (not fits)


@pytest.mark.parametrize("holder_lives", [True, False])
def test_an_allocation_that_fails_changes_nothing(holder_lives: bool) -> None:
    kv = make_manager(num_blocks=6)
    request = make_request("a", range(12))
    compute(kv, request)
    if not holder_lives:
        finish(kv, request)
    other = make_request("b", range(24))
    blocks, num_computed = kv.get_computed_blocks(other)
    assert num_computed == 12
    before = state(kv)
    assert kv.allocate_slots(other, 12, blocks) is None
    assert state(kv) == before
    assert kv.get_block_ids("b") == []
    assert kv.allocate_slots(other, 8, blocks) is not None, "one block less fits"


def test_growth_that_fails_changes_nothing() -> None:
    kv = make_manager(num_blocks=3)
    request = make_request("a", range(8))
    compute(kv, request)
    request.append_output_token(8)
    before = state(kv)
    assert kv.allocate_slots(request, 1) is None
    assert state(kv) == before
    assert kv.get_block_ids("a") == [1, 2]


def test_two_requests_may_compute_the_same_content_at_once() -> None:
    """No block is replaced by its duplicate: tables only grow. The block cached first answers, then
    the other.
    """
    kv = make_manager()
    a, b = make_request("a", range(8)), make_request("b", range(8))
    assert compute(kv, a) == [1, 2]
    assert compute(kv, b) == [1, 3], "the last block is computed again"
    assert kv.num_cached_blocks == 2
    assert hit_ids(kv, make_request("c", range(9))) == [1, 2]
    finish(kv, a)
    assert kv.free_block_ids()[-1] == 2
    for i in range(8):  # until block 2 is taken by another request
        compute(kv, make_request(f"other {i}", range(100 + 4 * i, 104 + 4 * i)))
    assert 2 in kv.get_block_ids("other 7")
    assert hit_ids(kv, make_request("c", range(9))) == [1, 3]


# --- release and eviction -------------------------------------------------------------------------


def test_free_order_is_vllms() -> None:
    """The useless tail is taken next, cached blocks last, a table's tail before its head."""
    kv = make_manager()
    request = make_request("a", range(14))
    assert compute(kv, request) == [1, 2, 3, 4]
    finish(kv, request)
    assert kv.free_block_ids() == [4, 5, 6, 7, 8, 9, 10, 3, 2, 1]
    assert kv.get_block_ids("a") == []
    assert kv.num_cached_blocks == 3


def test_without_prefix_caching_freed_blocks_are_taken_next() -> None:
    kv = make_manager(enable_prefix_caching=False)
    request = make_request("a", range(14))
    compute(kv, request)
    finish(kv, request)
    assert kv.free_block_ids() == [4, 3, 2, 1, 5, 6, 7, 8, 9, 10]


def test_freeing_twice_or_what_never_held_anything_changes_nothing() -> None:
    kv = make_manager()
    request = make_request("a", range(8))
    compute(kv, request)
    kv.free(request)
    before = state(kv)
    kv.free(request)
    kv.free(make_request("nobody", [1]))
    assert state(kv) == before


def test_trap_07_after_everybody_left_all_blocks_are_free_and_unheld() -> None:
    kv = make_manager(num_blocks=30)
    requests = [make_request(str(i), [*range(8), *range(100 * i, 100 * i + 5)]) for i in range(5)]
    for request in requests:
        compute(kv, request)
    for request in requests[::-1]:
        finish(kv, request)
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert sorted(kv.free_block_ids()) == list(range(1, 30))
    assert all(block.ref_cnt == 0 for block in kv.block_pool.blocks)
    assert kv.usage == 0


@pytest.mark.parametrize("num_evicted", range(5))
def test_trap_08_a_prefix_outlives_what_was_built_on_it(num_evicted: int) -> None:
    kv = make_manager(num_blocks=5)
    request = make_request("a", range(16))
    compute(kv, request)
    finish(kv, request)
    if num_evicted:
        compute(kv, make_request("b", range(100, 100 + num_evicted * BLOCK)))
    assert (
        kv.get_computed_blocks(make_request("a again", range(17)))[1] == (4 - num_evicted) * BLOCK
    )


def test_content_that_was_never_computed_is_withdrawn_when_its_request_is_preempted() -> None:
    kv = make_manager()
    request = make_request("a", range(16))
    compute(kv, request, 8)
    assert kv.allocate_slots(request, 8) is not None  # published, but the step never runs
    assert kv.num_cached_blocks == 4
    kv.free(request)
    assert kv.num_cached_blocks == 2
    assert hit_ids(kv, make_request("b", range(17))) == [1, 2]
    assert kv.free_block_ids() == [5, 6, 7, 8, 9, 10, 4, 3, 2, 1], (
        "they were cached when they were released"
    )


def test_a_block_that_was_half_computed_is_withdrawn_too() -> None:
    kv = make_manager()
    request = make_request("a", range(8))
    compute(kv, request, 6)
    assert kv.allocate_slots(request, 2) is not None
    kv.free(request)
    assert hit_ids(kv, make_request("b", range(9))) == [1]


def test_content_of_a_finished_request_stays() -> None:
    """Aborted while the model ran: the step does compute what it published."""
    kv = make_manager()
    request = make_request("a", range(16))
    compute(kv, request, 8)
    assert kv.allocate_slots(request, 8) is not None
    finish(kv, request)
    assert hit_ids(kv, make_request("b", range(17))) == [1, 2, 3, 4]


def test_withdraw_forgets_what_a_failed_step_was_to_write() -> None:
    kv = make_manager()
    request = make_request("a", range(15))
    compute(kv, request, 5)
    assert kv.allocate_slots(request, 8) is not None  # tokens [5, 13): fills blocks 1 and 2
    finish(kv, request)
    assert kv.num_cached_blocks == 3
    kv.withdraw(request, 8)
    assert kv.num_cached_blocks == 1
    assert hit_ids(kv, make_request("b", range(15))) == [1]


def test_withdraw_without_prefix_caching_has_nothing_to_do() -> None:
    kv = make_manager(enable_prefix_caching=False)
    request = make_request("a", range(8))
    assert kv.allocate_slots(request, 8) is not None
    finish(kv, request)
    kv.withdraw(request, 8)
    assert kv.num_cached_blocks == 0


def test_reset_prefix_cache_is_refused_while_a_block_is_held() -> None:
    kv = make_manager()
    a, b = make_request("a", range(8)), make_request("b", range(50, 58))
    compute(kv, a)
    compute(kv, b)
    finish(kv, a)
    before = state(kv)
    assert kv.reset_prefix_cache() is False
    assert state(kv) == before
    finish(kv, b)
    order = kv.free_block_ids()
    assert kv.reset_prefix_cache() is True
    assert kv.num_cached_blocks == 0
    assert all(block.block_hash is None for block in kv.block_pool.blocks)
    assert hit_ids(kv, make_request("a again", range(9))) == []
    assert kv.free_block_ids() == order


def test_statistics_add_up() -> None:
    stats = PrefixCacheStats()
    stats.record(10, 4)
    stats.record(20, 0)
    assert (stats.requests, stats.queries, stats.hits) == (2, 30, 4)


# --- collisions, long prompts ---------------------------------------------------------------------


def busy_scenario(seed: int) -> dict[str, Any]:
    """A small pool, shared prefixes, preemptions, outputs that meet: everything that looks names
    up.
    """
    policy = ("fcfs", "priority")[seed % 2]
    return {
        "name": f"busy {seed}",
        "config": {
            **{
                "block_size": 2,
                "num_blocks": 14,
                "max_num_seqs": 4,
                "max_num_batched_tokens": 9,
                "policy": policy,
            },
            **{"long_prefill_token_threshold": 5, "vocab_size": 2},
        },
        "requests": [
            {
                **{
                    "id": f"r{i}",
                    "arrival_step": i,
                    "max_tokens": 3 + (seed * i) % 5,
                    "sample_seed": i % 3,
                },
                **{
                    "prompt": [(seed >> (j % 7)) & 1 for j in range(2 + (seed + 3 * i) % 11)],
                    "priority": i % 2,
                },
            }
            for i in range(9)
        ],
    }


def test_trap_16_a_hash_collision_costs_time_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one hash for all contents, whole runs make the same decisions as with as many as there
    are.
    """
    expected = [run_trace(busy_scenario(seed)) for seed in range(40)]
    assert any(trace["totals"]["prefix_hits"] for trace in expected)
    assert any(trace["totals"]["preempted_hits"] for trace in expected)
    colliding = [busy_scenario(seed) for seed in range(40)]
    for scenario in colliding:
        for request in scenario["requests"]:
            request["prompt"] = [CollidingToken(token_id) for token_id in request["prompt"]]
    append = Request.append_output_token
    monkeypatch.setattr(
        Request, "append_output_token", lambda self, token: append(self, CollidingToken(token))
    )
    assert [run_trace(scenario) for scenario in colliding] == expected


def test_whole_runs_do_not_depend_on_the_hash_function() -> None:
    class Sha256Manager(KVCacheManager):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options, hash_function="sha256")

    for seed in range(20):
        scenario = busy_scenario(seed)
        assert run_trace(scenario, kv_cache_manager_cls=Sha256Manager) == run_trace(scenario)


@pytest.mark.slow
def test_a_chain_of_20_000_blocks_needs_no_deep_recursion() -> None:
    num_blocks = 20_000
    kv = make_manager(num_blocks=2 * num_blocks, block_size=1)
    request, same = make_request("a", range(num_blocks)), make_request("b", range(num_blocks))
    compute(kv, request)
    assert kv.get_computed_blocks(same)[1] == num_blocks - 1
    stranger = make_manager(block_size=1)
    twin = make_request("c", range(num_blocks))
    stranger.get_computed_blocks(twin)
    assert twin.block_hashes[-1] == request.block_hashes[-1]  # two chains that share nothing
    assert hash(twin.block_hashes[-1]) == hash(request.block_hashes[-1])
    del stranger, twin, same
    finish(kv, request)
    assert kv.reset_prefix_cache()
    del request, kv  # nor does throwing the chain away


class CountedToken(int):
    """A token id that counts how often it is compared."""

    num_comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedToken.num_comparisons += 1
        return int(self) == other

    __hash__ = int.__hash__


def test_looking_up_a_prefix_is_linear_in_its_length_for_every_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A token is compared when its block's name is made, and never again, however many requests
    came before.
    """
    num_blocks = 300
    kv = make_manager(num_blocks=4 * num_blocks, block_size=1)
    requests = [
        make_request(str(i), [CountedToken(t) for t in range(num_blocks)]) for i in range(8)
    ]
    for request in requests[:3]:  # with duplicates: nothing is looked up before it is cached again
        assert kv.allocate_slots(request, num_blocks) is not None
        request.num_computed_tokens = num_blocks
    for request in requests[3:]:
        monkeypatch.setattr(CountedToken, "num_comparisons", 0)
        assert kv.get_computed_blocks(request)[1] == num_blocks - 1
        assert num_blocks - 1 <= CountedToken.num_comparisons <= 2 * num_blocks
        assert kv.get_computed_blocks(request)[1] == num_blocks - 1
        assert CountedToken.num_comparisons <= 2 * num_blocks
    monkeypatch.setattr(CountedToken, "num_comparisons", 0)
    for request in requests[:3]:
        finish(kv, request)
    assert kv.reset_prefix_cache()
    assert CountedToken.num_comparisons == 0


# --- drafts, lookahead, groups --------------------------------------------------------------------


def cached(kv: KVCacheManager, request: Request) -> list[bool]:
    """Of each block of the table whether it can be found."""
    return [block.block_hash is not None for block in kv._tables[request.request_id]]


def verify(kv: KVCacheManager, request: Request, num_drafts: int, token_ids: Sequence[int]) -> None:
    """A step of the last token and some drafts, that brings token_ids: the accepted ones and one
    more.
    """
    assert kv.allocate_slots(request, 1 + num_drafts) is not None
    for token_id in token_ids:
        request.append_output_token(token_id)
    request.num_computed_tokens = request.num_tokens - 1


@pytest.mark.parametrize("at_once", [True, False])
def test_blocks_that_drafts_fill_are_published_when_the_drafts_are_accepted(at_once: bool) -> None:
    kv, request = make_manager(), make_request("a", range(6))
    compute(kv, request)
    request.append_output_token(6)
    # slots for 16 tokens; 15 are known, and 14 of them computed
    verify(kv, request, 9, range(7, 15))
    assert cached(kv, request) == [True, False, False, False]
    if at_once:
        kv.cache_blocks(request)
        assert cached(kv, request) == [True, True, True, False]
    assert kv.allocate_slots(request, 1) is not None
    assert cached(kv, request) == [True, True, True, False]
    assert hit_ids(kv, make_request("b", range(20))) == kv.get_block_ids("a")[:3]


def test_rejected_drafts_are_never_published() -> None:
    kv, request = make_manager(), make_request("a", range(3))
    compute(kv, request)
    request.append_output_token(3)
    for i in range(4, 9):
        verify(kv, request, 7, [i])
        assert cached(kv, request)[: i // 4 + 1] == [True] * (i // 4) + [False]
    assert hit_ids(kv, make_request("b", range(20))) == kv.get_block_ids("a")[:2]


def test_a_request_that_leaves_takes_what_it_has_not_published_along() -> None:
    kv, request = make_manager(), make_request("a", range(6))
    compute(kv, request)
    request.append_output_token(6)
    verify(kv, request, 9, range(7, 15))
    request.num_computed_tokens, request.status = 0, RequestStatus.PREEMPTED
    kv.free(request)
    assert kv._num_published == {}
    assert compute(kv, request)
    assert cached(kv, request) == [True, True, True, False]


def test_there_is_one_block_table_for_each_group() -> None:
    kv, request = make_manager(), make_request("a", range(9))
    compute(kv, request)
    assert kv.get_block_tables("a") == ((1, 2, 3),)
    assert kv.get_block_tables("unknown") == ((),)
