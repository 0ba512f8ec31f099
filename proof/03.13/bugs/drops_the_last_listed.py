STORY = "popitem() in place of pop(id): the newest entry leaves, whoever the victim is."
CONCEPT = "A dropped request is in neither the list nor the counts of the step; the others keep their order."
EDITS = [
    (
        "num_tokens = self.num_scheduled_tokens.pop(request.request_id, 0)\n",
        "num_tokens = 0\n        if request.request_id in self.num_scheduled_tokens:\n            num_tokens = self.num_scheduled_tokens.popitem()[1]\n",
    ),
]
