STORY = (
    "A test wants the block that was freed last to be the last that is free. Nothing says so for blocks without "
    "content."
)
CONCEPT = "A test for a bug is green where the bug is not, however the engine is written."
EDITS = [
    (
        "def test_any_number_may_share(lab):\n",
        "def test_the_order(lab):\n    pool = lab.BlockPool(6)\n    blocks = pool.get_new_blocks(3)\n    pool.free_blocks(blocks)\n    assert pool.free_queue.tail.prev_free_block is blocks[2]\n\n\ndef test_any_number_may_share(lab):\n",
    ),
]
