STORY = "The hits are held before the price is compared, to be safe. A request that is refused holds them for ever."
CONCEPT = "Free hits are part of the price: a request that fits with them is admitted, else no block is held."
EDITS = [
    (
        """            pool.touch(computed_blocks)
""",
        "",
    ),
    (
        "            num_needed = self",
        """            pool.touch(computed_blocks)
            num_needed = self""",
    ),
]
