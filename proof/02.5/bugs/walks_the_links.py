STORY = (
    "To count the free blocks the test follows the links from block to block. An engine that keeps the order "
    "in a dictionary has no links to follow."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """    free = kv.free_block_ids()
""",
        """    free, block = [], kv.block_pool.free_queue._head.next_free_block
    while block.next_free_block is not None:
        free.append(block.block_id)
        block = block.next_free_block
""",
    ),
]
