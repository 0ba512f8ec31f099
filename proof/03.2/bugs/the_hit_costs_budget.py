STORY = "A learner takes prefix and chunk from the budget. Cached tokens push others out of the step."
CONCEPT = "What the cache holds costs no budget."
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
            "            token_budget -= num_computed + n\n"
        ),
    ),
]
