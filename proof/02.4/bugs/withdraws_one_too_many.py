STORY = (
    "To be safe, the last block that was wholly computed is withdrawn as well. Every preemption costs a block "
    "that need not have been computed again."
)
CONCEPT = "What was promised and not written is not found; what was written, or will be, stays."
EDITS = [
    (
        """            for block in table[request.num_computed_tokens // self.block_size :]:
""",
        """            for block in table[max(request.num_computed_tokens // self.block_size - 1, 0) :]:
""",
    ),
]
