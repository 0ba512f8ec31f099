STORY = "A learner clears up after a request that has ended: its id leaves running, with the next one that has it."
CONCEPT = (
    "A late answer changes neither the request that was in the step nor the next one of its id, which may run already."
)
EDITS = [
    (
        "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n                continue\n",
        "            if request.status is not RequestStatus.RUNNING:  # finished from outside while the model ran\n                self.running = [each for each in self.running if each.request_id != request.request_id]\n                continue\n",
    ),
]
