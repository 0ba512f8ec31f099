STORY = (
    "Asked for more than there is, the pool hands out the rest and says nothing. The caller's table is too "
    "short, and the next token is written past its end."
)
CONCEPT = "Too many asked for: ValueError, and no block is taken or evicted."
EDITS = [
    ("popleft_n(num_blocks)", "popleft_n(min(num_blocks, self.num_free_blocks))"),
]
