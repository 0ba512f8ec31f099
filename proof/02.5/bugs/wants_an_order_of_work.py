STORY = (
    "To free a block twice is a call that the laws do not speak of. The test still wants the other block to be "
    "released before the error, since one engine happens to work in this order."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """    assert pool.get_cached_block("content") is block, "I4: nobody is evicted"
""",
        """    assert pool.get_cached_block("content") is block, "I4: nobody is evicted"
    one, two = pool.get_new_blocks(2)
    pool.free_blocks([one])
    with raises(AssertionError, "block one is freed twice"):
        pool.free_blocks([one, two])
    assert two.ref_cnt == 0, "block two is free all the same"
""",
    ),
]
