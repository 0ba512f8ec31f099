STORY = "A slot that somebody holds counts as used. By this measure a memory of long stretches is always full."
CONCEPT = "One request: what is written, what it will write later into slots that it has, and the rest."
EDITS = [
    (
        """        used += num_written
        reserved += ever - num_written
""",
        """        used += ever
""",
    ),
]
