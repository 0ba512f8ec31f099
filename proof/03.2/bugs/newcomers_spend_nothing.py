STORY = "A learner forgets to take what a newcomer computes from the budget. All prompts are admitted in one step."
CONCEPT = "All requests share one budget: it is spent in order, and a request that finds it empty goes on waiting."
EDITS = [
    (
        (
            "            self._admit(request, num_computed)\n"
            "            output.add(request, n)\n"
            "            token_budget -= n\n"
        ),
        ("            self._admit(request, num_computed)\n            output.add(request, n)\n"),
    ),
]
