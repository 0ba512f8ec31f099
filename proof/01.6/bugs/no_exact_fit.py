STORY = "A hole must be longer than the request, the learner writes. One that fits exactly stays empty for ever."
CONCEPT = "A new request gets the front of the first hole that is long enough; each search begins at slot 0."
EDITS = [
    (
        """            if len(hole) >= num_tokens:
""",
        """            if len(hole) > num_tokens:
""",
    ),
]
