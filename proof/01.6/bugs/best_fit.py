STORY = (
    "The shortest hole that is long enough is taken, so that little is left over: best fit, where first "
    "fit was asked for."
)
CONCEPT = "A new request gets the front of the first hole that is long enough; each search begins at slot 0."
EDITS = [
    (
        """        for hole in self.holes():
""",
        """        for hole in sorted(self.holes(), key=len):
""",
    ),
]
