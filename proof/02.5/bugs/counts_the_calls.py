STORY = (
    "A spy counts how often the pool is asked for blocks. Once for a prompt, says the test; an engine that "
    "asks once for each block does nothing wrong."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        "    three = [",
        """    calls, take = [], engine.kv.block_pool.get_new_blocks
    engine.kv.block_pool.get_new_blocks = lambda num_blocks: calls.append(num_blocks) or take(num_blocks)
    three = [""",
    ),
    (
        """        assert engine.step(request)
    for request in three:
""",
        """        assert engine.step(request)
    assert calls == [3, 1, 1], "one call for each request"
    for request in three:
""",
    ),
]
