STORY = (
    "All blocks go to the back, as in a plain queue. Empty blocks wait there while good content is evicted in "
    "front of them."
)
CONCEPT = "Blocks without content are of no use: they are taken first, again the tail first."
EDITS = [
    (
        """        self.free_queue.prepend_n(useless)
        self.free_queue.append_n(cached)
""",
        """        self.free_queue.append_n(useless)
        self.free_queue.append_n(cached)
""",
    ),
]
