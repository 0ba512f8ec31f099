STORY = "A victim that was not in the step gives back what it would have computed. The step exceeds its budget."
CONCEPT = "Most victims were not in the step: to drop one changes nothing and gives nothing back."
EDITS = [
    (
        "pop(request.request_id, 0)\n        if num_tokens:\n            self.scheduled_requests.remove(request)\n",
        "pop(request.request_id, request.num_tokens - request.num_computed_tokens)\n        if request in self.scheduled_requests:\n            self.scheduled_requests.remove(request)\n",
    ),
]
