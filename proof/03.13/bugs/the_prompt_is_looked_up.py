STORY = "The queries count the prompt; after a preemption the output was looked up, too."
CONCEPT = "A first admission and one after a preemption are counted apart; the sender hears of the first."
EDITS = [
    (
        "stats.record(request.num_tokens, num_hits)",
        "stats.record(request.num_prompt_tokens, num_hits)",
    ),
]
