STORY = (
    "A learner puts a victim that has not finished its prompt behind the victims that wait already. An "
    "older victim is to stand before a younger."
)
CONCEPT = "A victim goes before all that wait, and an older victim before a younger."
EDITS = [
    (
        "        self._enqueue(request)",
        (
            "        if request.output_token_ids or not self.waiting or not self.waiting[0].num_preemptions:\n"
            "            self._enqueue(request)\n"
            "        else:\n"
            "            self.waiting.insert(1, request)"
        ),
    ),
]
