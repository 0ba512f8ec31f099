STORY = "A learner counts down the requests that are still to be served, and counts a victim both when it leaves and when the list is shorter. With two victims a request is missed."
CONCEPT = "Each request without slots preempts one; those that still run behind it compute in the same step."
EDITS = [
    (
        "        for request in requests:\n            if request.status is preempted:",
        "        for number, request in enumerate(requests):\n            if number >= len(self.running) - max(0, len(output.preempted_req_ids) - 1):\n                break\n            if request.status is preempted:",
    )
]
