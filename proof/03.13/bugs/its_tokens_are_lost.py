STORY = "The victim leaves the step, and what it had of the budget is used by nobody."
CONCEPT = "Under priority the victim may be in this step already: it leaves the step, and those behind get its tokens."
EDITS = [
    (
        "                token_budget += output.drop(victim)\n",
        "                output.drop(victim)\n",
    ),
]
