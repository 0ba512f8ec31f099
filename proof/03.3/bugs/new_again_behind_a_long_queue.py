STORY = "A learner lets a victim that computed nothing be a newcomer again when the queue is long. Its mark is lost."
CONCEPT = "A victim is marked as one that had begun: it is PREEMPTED, one time more."
EDITS = [
    (
        "        request.status = RequestStatus.PREEMPTED\n",
        "        begun = request.num_computed_tokens > 0 or len(self.waiting) < 16\n        request.status = RequestStatus.PREEMPTED if begun else RequestStatus.WAITING\n",
    )
]
