STORY = (
    "The price, and the length of the table with it, are asked of the manager that is tested. When it reckons "
    "wrongly it agrees with itself."
)
CONCEPT = "Work out the price yourself, and compare all that you can see before and after a refusal."
EDITS = [
    (
        """        num_new = max(ceil(end / self.size) - len(old) - len(hits), 0)
        price = num_new + sum(block.ref_cnt == 0 for block in hits)
""",
        """        price = kv.num_blocks_needed(request, end, hits)
        num_new = price - sum(block.ref_cnt == 0 for block in hits)
""",
    ),
    (
        """        assert len(table) == ceil(end / self.size), f"I3: a block for every {self.size} tokens"
""",
        """        assert len(table) == len(old) + len(hits) + num_new, f"I3: a block for every {self.size} tokens"
""",
    ),
]
