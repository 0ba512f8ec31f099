STORY = "The victim gives back its blocks and stays in the step: its token is computed into blocks of somebody else."
CONCEPT = "Under priority the victim may be in this step already: it leaves the step, and those behind get its tokens."
EDITS = [
    (
        "                token_budget += output.drop(victim)\n",
        "",
    ),
]
