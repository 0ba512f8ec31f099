STORY = "The counts are cleaned and the list is not: the runner computes a request without slots."
CONCEPT = "A dropped request is in neither the list nor the counts of the step; the others keep their order."
EDITS = [
    (
        "        if num_tokens:\n            self.scheduled_requests.remove(request)\n        return num_tokens\n",
        "        return num_tokens\n",
    ),
]
