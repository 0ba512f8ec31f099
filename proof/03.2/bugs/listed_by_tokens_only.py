STORY = "A learner fills the dictionary and forgets the list. The runner computes nothing."
CONCEPT = "To be admitted is to go from waiting to running, and to hold slots for what is computed."
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
