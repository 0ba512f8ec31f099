STORY = (
    "The requests are sorted by their ids, as if the ids said where a stretch lies. A late request in an "
    "early hole is in the wrong place."
)
CONCEPT = "Holes are listed by address, in whatever order the requests came and whatever they are called."
EDITS = [
    (
        """        for stretch in sorted(self.stretches.values(), key=lambda stretch: stretch.start):
""",
        """        for _, stretch in sorted(self.stretches.items()):
""",
    ),
]
