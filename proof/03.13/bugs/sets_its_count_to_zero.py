STORY = "The count is set to 0 and not removed: the step lists a request with no tokens."
CONCEPT = "A dropped request is in neither the list nor the counts of the step; the others keep their order."
EDITS = [
    (
        "        num_tokens = self.num_scheduled_tokens.pop(request.request_id, 0)\n",
        "        num_tokens = self.num_scheduled_tokens.get(request.request_id, 0)\n        if num_tokens:\n            self.num_scheduled_tokens[request.request_id] = 0\n",
    ),
]
