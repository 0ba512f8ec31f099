STORY = "For large scores nobody wanted to compute the result by hand, so the test asks whether it is a number at all."
CONCEPT = "Many ways to compute a softmax agree on small scores; the large ones tell them apart."
EDITS = [
    (
        """        agree(f"scores {scores}", got, query, keys, values, 1.0)
""",
        """        check().true(f"the result for {scores} is finite", got.isfinite().all())
""",
    ),
]
