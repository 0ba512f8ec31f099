STORY = (
    "A table without any content goes to the front as it stands. Nobody notices with one block; with two the "
    "order differs from what was promised."
)
CONCEPT = "Blocks without content are of no use: they are taken first, again the tail first."
EDITS = [
    (
        """        self.free_queue.prepend_n(useless)
        self.free_queue.append_n(cached)
""",
        """        self.free_queue.prepend_n(useless if cached else reversed(useless))
        self.free_queue.append_n(cached)
""",
    ),
]
