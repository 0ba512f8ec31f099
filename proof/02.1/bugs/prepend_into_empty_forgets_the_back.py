STORY = (
    "prepend_n() into an empty queue does not tell the back end. What is appended next hangs on the front "
    "end, and the prepended blocks are lost."
)
CONCEPT = "When an end leaves, the next one is the end, and an empty queue is filled again."
EDITS = [
    (
        """        first.prev_free_block = last
""",
        """        if first is not self._tail:
            first.prev_free_block = last
""",
    ),
]
