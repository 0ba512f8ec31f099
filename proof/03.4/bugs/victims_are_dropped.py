STORY = "A learner takes preempted requests for ended ones. They leave the queue and are never answered."
CONCEPT = "A request that was preempted is not in the step, and keeps its counter at 0."
EDITS = [
    (
        ("        return finished\n"),
        (
            "        for request_id in output.preempted_req_ids:\n"
            "            self.waiting = type(self.waiting)(r for r in self.waiting if r.request_id != request_id)\n"
            "        return finished\n"
        ),
    ),
]
