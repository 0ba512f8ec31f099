STORY = "Names are compared by their beginning: when 1 leaves, 10 leaves with it."
CONCEPT = "A dropped request is in neither the list nor the counts of the step; the others keep their order."
EDITS = [
    (
        "            self.scheduled_requests.remove(request)\n",
        "            name = request.request_id\n"
        "            self.scheduled_requests = [r for r in self.scheduled_requests if not r.request_id.startswith(name)]\n",
    ),
]
