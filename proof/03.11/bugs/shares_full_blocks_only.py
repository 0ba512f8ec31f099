STORY = (
    "Only full blocks are shared, as in the prefix cache. The child's counter says that its last tokens "
    "are computed, and it has no block in which they lie."
)
CONCEPT = "A fork takes no block: the child's table reads as its parent's."
EDITS = [
    (
        ("        table = self._tables.get(parent.request_id, [])\n"),
        (
            "        num_full = parent.num_computed_tokens // self.block_size\n"
            "        table = self._tables.get(parent.request_id, [])[:num_full]\n"
        ),
    ),
]
