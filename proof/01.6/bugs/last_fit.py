STORY = (
    "The search is turned round, since newer slots are thought to be behind. Short requests break up the "
    "end of the memory."
)
CONCEPT = "A new request gets the front of the first hole that is long enough; each search begins at slot 0."
EDITS = [
    (
        """        for hole in self.holes():
""",
        """        for hole in reversed(self.holes()):
""",
    ),
]
