STORY = "The programs are taken in eights, as a block of threads is. The ninth token is the first again."
CONCEPT = "Whatever the batch, each token stands in its slot, and nothing else has changed."
EDITS = [
    (
        """    token = tl.program_id(0).to(tl.int64)
""",
        """    token = tl.program_id(0).to(tl.int64) % 8
""",
    ),
]
