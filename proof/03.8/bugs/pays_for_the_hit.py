STORY = (
    "A learner asks whether the missing tokens fit and then pays for the whole prompt. Those behind it find no budget."
)
CONCEPT = "Whether a prompt fits is asked of what must be computed: what the cache holds costs no budget."
EDITS = [
    (
        "            token_budget -= n + num_charged\n",
        "            token_budget -= request.num_tokens\n",
    ),
]
