STORY = "A learner writes if where while belongs. One request is admitted in each step, however many would fit."
CONCEPT = "One budget for all: it is spent in order, and who finds it empty goes on waiting."
EDITS = [
    (
        (
            "            self._admit(request, num_computed)\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
        ),
        (
            "            self._admit(request, num_computed)\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
            "            break\n"
        ),
    ),
]
