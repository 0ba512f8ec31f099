STORY = "drop() gives the tokens back, and the victim's counter is looked at once more."
CONCEPT = "Under priority the victim may be in this step already: it leaves the step, and those behind get its tokens."
EDITS = [
    (
        "                token_budget += output.drop(victim)\n",
        "                token_budget += 2 * output.drop(victim)\n",
    ),
]
