STORY = "A learner forgets the loads of a failed step only: those that went well seem to be on their way for ever."
CONCEPT = "What comes from main memory is no hit of the prefix cache, and is counted for one step."
EDITS = [
    (
        "        self._loads.clear()\n",
        ("        if result is None:\n            self._loads.clear()\n"),
    ),
]
