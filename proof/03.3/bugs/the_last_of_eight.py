STORY = "A learner looks at the first eight, since no more ever ran where it was tried. In a larger batch somebody in the middle gives way."
CONCEPT = "However many run, each victim is the last of those that are left, and goes before all that wait."
EDITS = [
    ("            return self.running.pop()\n", "            return self.running.pop(min(7, len(self.running) - 1))\n")
]
