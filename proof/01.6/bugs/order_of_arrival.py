STORY = "A dictionary keeps the order of arrival, and that was the order of the addresses until the first request left."
CONCEPT = "Holes are listed by address, in whatever order the requests came and whatever they are called."
EDITS = [
    (
        """        for stretch in sorted(self.stretches.values(), key=lambda stretch: stretch.start):
""",
        """        for stretch in self.stretches.values():
""",
    ),
]
