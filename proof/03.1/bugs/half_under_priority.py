STORY = (
    "A learner keeps half of the budget for urgent newcomers under the policy priority. Budget that "
    "nobody takes is lost."
)
CONCEPT = "In any run chunks are as large as the budget lets them be, and those that catch up sample."
EDITS = [
    (
        "return num_new_tokens if num_new_tokens < token_budget else token_budget",
        (
            'if self.policy == "priority" and num_new_tokens > 2 and token_budget > 1:\n'
            "            token_budget //= 2\n"
            "        return min(num_new_tokens, token_budget)"
        ),
    ),
]
