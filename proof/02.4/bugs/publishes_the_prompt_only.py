STORY = "Only blocks of the prompt are published. A conversation is computed again from the first answer on."
CONCEPT = "What was generated is published like the prompt, when slots for a block's last token are given."
EDITS = [
    (
        """            start, end = num_computed // block_size, num_tokens // block_size
""",
        """            start, end = num_computed // block_size, min(num_tokens, request.num_prompt_tokens) // block_size
""",
    ),
]
