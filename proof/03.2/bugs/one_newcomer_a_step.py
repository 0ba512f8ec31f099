STORY = "A learner writes if where while belongs. One request is admitted in each step, however many would fit."
CONCEPT = "All requests share one budget: it is spent in order, and a request that finds it empty goes on waiting."
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
