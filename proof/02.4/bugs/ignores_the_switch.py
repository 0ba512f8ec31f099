STORY = (
    "Names are published although prefix caching is off. Freed blocks then wait at the back of the queue as if "
    "they were worth something."
)
CONCEPT = "With prefix caching off there are slots, and nothing is published."
EDITS = [
    (
        """        if self.enable_prefix_caching:
""",
        """        if True:
""",
    ),
]
