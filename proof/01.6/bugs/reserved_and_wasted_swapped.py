STORY = (
    "Wasted is taken for what is empty now, and reserved for what is kept beyond the end. It is the other way round."
)
CONCEPT = "One request: what is written, what it will write later into slots that it has, and the rest."
EDITS = [
    (
        """        used += num_written
        reserved += ever - num_written
        wasted += held - ever
""",
        """        used += num_written
        wasted += ever - num_written
        reserved += held - ever
""",
    ),
]
