STORY = (
    "Whatever a preempted request has computed is forgotten with what it has not. It starts from nothing when "
    "it comes back, under the very pressure that threw it out."
)
CONCEPT = "What was promised and not written is not found; what was written, or will be, stays."
EDITS = [
    (
        """            for block in table[request.num_computed_tokens // self.block_size :]:
""",
        """            for block in table:
""",
    ),
]
