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
