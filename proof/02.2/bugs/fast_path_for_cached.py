STORY = (
    "For a table that is cached as a whole somebody adds a fast path, and forgets to turn the order round "
    "there. Prompts of full blocks lose their head first."
)
CONCEPT = "Cached blocks wait at the back, the tail of a table before its head: a prefix is evicted last."
EDITS = [
    (
        """        self.free_queue.prepend_n(useless)
        self.free_queue.append_n(cached)
""",
        """        self.free_queue.prepend_n(useless)
        self.free_queue.append_n(cached if useless else reversed(cached))
""",
    ),
]
