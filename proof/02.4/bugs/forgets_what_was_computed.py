STORY = (
    "Room is made for the new tokens alone, counted from the beginning of the table. The second chunk of a "
    "prompt finds its place taken, by the first."
)
CONCEPT = "A prompt may come in chunks: each goes on where the last one ended."
EDITS = [
    ("num_tokens = num_computed + num_new_tokens", "num_tokens = len(computed_blocks) * block_size + num_new_tokens"),
]
