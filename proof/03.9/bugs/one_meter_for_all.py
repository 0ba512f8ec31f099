STORY = "The meter is kept by the class. Of two windows on different meters both observe the later one."
CONCEPT = "A recorder is of one scheduler, and a window of one meter: others do not change what they say."
EDITS = [
    (
        "        self.stats = stats\n",
        "        type(self).stats = stats\n",
    ),
    (
        "        stats, edges = self.stats, self._edges\n",
        "        stats, edges = type(self).stats, self._edges\n",
    ),
]
