STORY = (
    "Each useless block is put to the front as it comes, so the order is turned round once more. The head of "
    "the table is taken before its tail."
)
CONCEPT = "Blocks without content are of no use: they are taken first, again the tail first."
EDITS = [
    (
        """        self.free_queue.prepend_n(useless)
        self.free_queue.append_n(cached)
""",
        """        for block in useless:
            self.free_queue.prepend_n([block])
        self.free_queue.append_n(cached)
""",
    ),
]
