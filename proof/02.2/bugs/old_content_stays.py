STORY = (
    "A block is taken again and keeps its hash, as in nano-vllm's issue 163. The next request with the old "
    "prompt reads another prompt's keys and values."
)
CONCEPT = "A block that is taken again is not found under its old content."
EDITS = [
    (
        """            self.uncache_block(block)
""",
        "",
    ),
]
