STORY = "An empty queue refuses popleft_n(0), though nothing more is asked for than there is."
CONCEPT = "To put nothing in, or to take nothing out, changes nothing; an empty queue gives nothing."
EDITS = [
    (
        "        if num_blocks > self.num_free_blocks:",
        "        if not self.num_free_blocks or num_blocks > self.num_free_blocks:",
    ),
]
