STORY = (
    "A learner divides the budget by the number of requests, to be fair. Those in front get too little, and the "
    "budget of the step is not used up."
)
CONCEPT = "The budget alone cuts a long prompt; the next request gets what its last chunk leaves."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        "return min(num_new_tokens, -(-token_budget // len(self._requests)))",
    ),
]
