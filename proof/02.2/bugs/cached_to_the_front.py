STORY = (
    "Freed blocks are put where the next request takes them. What was used a moment ago is evicted first, and "
    "the oldest content stays for ever."
)
CONCEPT = "Cached blocks wait at the back, the tail of a table before its head: a prefix is evicted last."
EDITS = [
    (
        """        self.free_queue.prepend_n(useless)
        self.free_queue.append_n(cached)
""",
        """        self.free_queue.prepend_n(cached)
        self.free_queue.prepend_n(useless)
""",
    ),
]
