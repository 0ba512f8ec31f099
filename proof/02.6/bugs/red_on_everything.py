STORY = "The test is red whatever it runs on, and has found nothing."
CONCEPT = "What was overwritten must not be found: take a block, and ask for what was in it."

CASE_A = {"culprit": "mini_vllm.block_pool:BlockPool.uncache_block", "step": 6, "why": "it is"}
CASE_B = {"culprit": "mini_vllm.block_pool:BlockPool.touch", "step": 14, "why": "it is"}


def test_it(lab):
    assert False
