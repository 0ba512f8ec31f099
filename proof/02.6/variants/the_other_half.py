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
