STORY = "A learner wants to be fair, and admits first whoever was thrown out most often. The queue says otherwise."
CONCEPT = "A request that was preempted more often waits no less: the queue alone says whose turn it is."
EDITS = [
    (
        "            request = self._next_waiting()\n",
        "            request = max(self.waiting, key=lambda each: each.num_preemptions) if self.waiting else None\n",
    )
]
