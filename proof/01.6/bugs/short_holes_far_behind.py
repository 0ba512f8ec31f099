STORY = "The search ends at slot 1,024, as the memories that were tried had no more."
CONCEPT = "A memory may have many slots and many requests; a hole far behind is one like the others."
EDITS = [
    (
        """            if len(hole) >= num_tokens:""",
        """            if len(hole) >= num_tokens and hole.start < 1024:""",
    ),
]
