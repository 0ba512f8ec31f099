STORY = (
    "The block in which the computed tokens end is taken for computed. It was published when its last slot was "
    "given, and its second half was never written."
)
CONCEPT = "What was promised and not written is not found; what was written, or will be, stays."
EDITS = [
    (
        """            for block in table[request.num_computed_tokens // self.block_size :]:
""",
        """            for block in table[-(-request.num_computed_tokens // self.block_size) :]:
""",
    ),
]
