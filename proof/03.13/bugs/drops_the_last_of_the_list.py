STORY = "A victim is the last of running, so the last of the list is taken: true for first come, first served alone."
CONCEPT = "A dropped request is in neither the list nor the counts of the step; the others keep their order."
EDITS = [
    (
        "            self.scheduled_requests.remove(request)\n",
        "            self.scheduled_requests.pop()\n",
    ),
]
