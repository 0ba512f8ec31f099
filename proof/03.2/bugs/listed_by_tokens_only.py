STORY = "A learner fills the dictionary and forgets the list. The runner computes nothing."
CONCEPT = "An admitted request goes from waiting to running, and holds slots for what it computes."
EDITS = [
    (
        (
            "            self._admit(request, num_computed)\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
        ),
        (
            "            self._admit(request, num_computed)\n"
            "            output.num_scheduled_tokens[request.request_id] = n\n"
            "            token_budget -= n\n"
        ),
    ),
]
