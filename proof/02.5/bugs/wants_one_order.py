STORY = (
    "The list of free blocks after a preemption was copied from a run of one engine. Another one puts the "
    "blocks that nobody can find to the front, which is better, and is called broken."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        """            engine.preempt(a)
        engine""",
        """            engine.preempt(a)
            if computed == 5:
                assert engine.kv.free_block_ids() == [4, 5, 6, 7, 3, 2, 1]
        engine""",
    ),
]
