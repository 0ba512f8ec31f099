STORY = (
    "The blocks are held at once, so that nobody can take them. A request that is looked up and then not "
    "admitted holds them for ever."
)
CONCEPT = "To look changes nothing: a request that is not admitted after all has taken nothing."
EDITS = [
    (
        "        return hits, len(hits) * self.block_size",
        """        self.block_pool.touch(hits)
        return hits, len(hits) * self.block_size""",
    ),
]
