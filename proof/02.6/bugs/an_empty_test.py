STORY = "The culprits are known, and the test is left empty."
CONCEPT = "A count of holders is right only if all of them are counted: let three share, and leave."

CASE_A = {"culprit": "mini_vllm.block_pool:BlockPool.uncache_block", "step": 6, "why": "it is"}
CASE_B = {"culprit": "mini_vllm.block_pool:BlockPool.touch", "step": 14, "why": "it is"}


def test_it(lab):
    lab.KVCacheManager(8, 4)
