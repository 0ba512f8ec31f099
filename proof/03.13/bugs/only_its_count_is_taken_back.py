STORY = "schedule() cleans the counts by hand and forgets the list."
CONCEPT = "Under priority the victim may be in this step already: it leaves the step, and those behind get its tokens."
EDITS = [
    (
        "                token_budget += output.drop(victim)\n",
        "                token_budget += output.num_scheduled_tokens.pop(victim.request_id, 0)\n",
    ),
]
