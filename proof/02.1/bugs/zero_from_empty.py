STORY = "An empty queue refuses popleft_n(0), though nothing more is asked for than there is."
CONCEPT = "After any calls in any order, the queue is what they made of it."
EDITS = [
    (
        "        if num_blocks > self.num_free_blocks:",
        "        if not self.num_free_blocks or num_blocks > self.num_free_blocks:",
    ),
]
