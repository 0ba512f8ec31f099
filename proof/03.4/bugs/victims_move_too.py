STORY = (
    "A learner moves the counters of all that it knows, victims included. A preempted request believes that it "
    "has computed something."
)
CONCEPT = "A request that was preempted is not in the step, and keeps its counter at 0."
EDITS = [
    (
        ("        return finished\n"),
        (
            "        for request_id in output.preempted_req_ids:\n"
            "            self._requests[request_id].num_computed_tokens += 1\n"
            "        return finished\n"
        ),
    ),
]
