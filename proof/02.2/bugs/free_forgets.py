STORY = (
    "Somebody clears a block when it is freed, as one clears memory. Nothing is ever found after its request "
    "has ended: the prefix cache works only between requests that run together."
)
CONCEPT = "A freed block is not forgotten: it can be found until a request takes it."
EDITS = [
    (
        """        self.free_queue.prepend_n(useless)
        self.free_queue.append_n(cached)
""",
        """        self.free_queue.prepend_n(useless)
        self.free_queue.append_n(cached)
        for block in cached:
            self.uncache_block(block)
""",
    ),
]
