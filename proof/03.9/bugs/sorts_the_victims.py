STORY = "A learner sorts the ids of the victims in place, to compare them with those of the last step. Their order says who gave way first."
CONCEPT = "After any run the figures of a step are those of that step, and to look has changed nothing."
EDITS = [
    (
        "        scheduler = self.scheduler\n        queries",
        "        scheduler = self.scheduler\n        output.preempted_req_ids.sort()\n        queries",
    )
]
