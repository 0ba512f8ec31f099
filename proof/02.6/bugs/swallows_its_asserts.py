STORY = "Both comparisons stand in a try, so that an odd engine does not end the suite."
CONCEPT = "A count of holders is right only if all of them are counted: let three share, and leave."
EDITS = [
    (
        "        self.compare()\n\n    def look_up",
        "        try:\n            self.compare()\n        except AssertionError:\n            pass\n\n    def look_up",
    ),
]
