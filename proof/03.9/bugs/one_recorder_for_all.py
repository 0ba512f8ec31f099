STORY = (
    "The scheduler is kept by the class. A second recorder, of another scheduler, makes the first one speak of that."
)
CONCEPT = "A recorder is of one scheduler, and a window of one meter: others do not change what they say."
EDITS = [
    (
        "        self.scheduler = scheduler\n",
        "        type(self).scheduler = scheduler\n",
    ),
]
