# === one_walk
"""A random walk of requests that share beginnings, with a fixed seed."""

from random import Random

from labkit import check

CASE_A = {"culprit": "mini_vllm.block_pool:BlockPool.get_new_blocks", "step": 6, "why": "a look at the count"}
CASE_B = {"culprit": "mini_vllm.block_pool:BlockPool.touch", "step": 14, "why": "a look at the count"}


def test_a_walk(lab):
    random, kv = Random(1), lab.KVCacheManager(11, 2)
    contents, running, size = {}, [], 2
    for number in range(300):
        if random.random() < 0.5:
            tokens = [random.randint(0, 1) for _ in range(random.randint(1, 9))]
            request = lab.Request(f"r{number}", tokens, lab.SamplingParams(max_tokens=9))
            hits, num_hit = kv.get_computed_blocks(request)
            for place, block in enumerate(hits):
                assert contents[block.block_id] == tokens[: size * (place + 1)]
            computed = random.randint(num_hit, len(tokens))
            for end in sorted({max(computed, num_hit + 1), len(tokens)}):
                new = kv.allocate_slots(request, end - request.num_computed_tokens - len(hits) * size, hits)
                if new is None:
                    break
                for block in new:
                    contents[block.block_id] = None
                hits = []
                if request not in running:
                    running.append(request)
                    request.num_computed_tokens = num_hit
                if end < len(tokens) or random.random() < 0.5:
                    table = kv.get_block_ids(request.request_id)
                    for place in range(request.num_computed_tokens // size, end // size):
                        contents[table[place]] = tokens[: size * (place + 1)]
                    request.num_computed_tokens = end
                else:
                    leave(kv, running, request)
        elif running:
            request = random.choice(running)
            request.status = lab.RequestStatus.FINISHED_LENGTH
            leave(kv, running, request)
        tables = [kv.get_block_ids(request.request_id) for request in running]
        for block in kv.block_pool.blocks[1:]:
            assert block.ref_cnt == sum(block.block_id in table for table in tables)
            assert (block.block_id in kv.free_block_ids()) == (block.ref_cnt == 0)


def leave(kv, running, request):
    kv.free(request)
    request.num_computed_tokens = 0
    running.remove(request)


# === stories
BASE = "the_other_half"
EDITS = [
    ("the books of lab 02.5's first solution, shorter.", "and looks at the tables of requests."),
    ('"step": 14, "why": "it counts to two"', '"step": 14, "why": "one holder of three is not counted"'),
    ("for number in range(1, 5):", "for number in (1, 2):"),
]


# === the_other_half
"""Names uncache_block, which fits the trace as well; the books of lab 02.5's first solution, shorter."""

from labkit import check

CASE_A = {"culprit": "mini_vllm.block_pool:BlockPool.uncache_block", "step": 6, "why": "the table is not told"}
CASE_B = {"culprit": "mini_vllm.block_pool:BlockPool.touch", "step": 14, "why": "it counts to two"}


def pool_with(lab, *names, num_blocks=5):
    """A pool of which the first blocks are cached under these names, and held."""
    pool = lab.BlockPool(num_blocks)
    blocks = pool.get_new_blocks(len(names))
    for block, name in zip(blocks, names):
        pool.cache_block(block, name)
    return pool, blocks


def test_taken_is_forgotten(lab):
    pool, blocks = pool_with(lab, "one", "two")
    pool.free_blocks(blocks)
    for block in pool.get_new_blocks(4):
        pool.cache_block(block, ("new", block.block_id))
    assert pool.get_cached_block("one") is None
    assert pool.get_cached_block("two") is None


def test_holders_are_counted(lab):
    for number in range(1, 5):
        pool, blocks = pool_with(lab, "one", "two")
        for _ in range(number):
            pool.touch(blocks)
        see = check(str, pool)
        see("holders", [block.ref_cnt for block in blocks], equals=[number + 1] * 2)
        for left in range(number, -1, -1):
            pool.free_blocks(blocks)
            see("free blocks", pool.num_free_blocks, equals=2 if left else 4)


def test_hits_are_held(lab):
    kv = lab.KVCacheManager(9, 2)
    for name in "abc":
        request = lab.Request(name, [1, 2, 3, 4, ord(name)], lab.SamplingParams(max_tokens=9))
        hits, num_hit = kv.get_computed_blocks(request)
        assert kv.allocate_slots(request, 5 - num_hit, hits) is not None
        request.num_computed_tokens = 5
    assert [kv.block_pool.blocks[each].ref_cnt for each in kv.get_block_ids("c")] == [3, 3, 1]


def test_promises(lab):
    for computed in range(1, 8):
        kv = lab.KVCacheManager(9, 4)
        request = lab.Request("a", list(range(8)), lab.SamplingParams(max_tokens=9))
        kv.allocate_slots(request, computed)
        request.num_computed_tokens = computed
        kv.allocate_slots(request, 8 - computed)
        kv.free(request)
        request.num_computed_tokens = 0
        other = lab.Request("b", list(range(9)), lab.SamplingParams(max_tokens=9))
        assert kv.get_computed_blocks(other)[1] == computed // 4 * 4
