STORY = (
    "A learner takes the newcomer from the whole budget, and not from what was left. The third prompt is "
    "measured against what only the second has spent."
)
CONCEPT = "Prompts share a step while they fit whole; the first that does not is deferred to the next, and not cut."
EDITS = [
    (
        "            token_budget -= n + num_charged\n",
        "            token_budget = self.max_num_batched_tokens - n - num_charged\n",
    ),
]
