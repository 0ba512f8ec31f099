STORY = "The queries count what is still to be computed, so that hits may exceed queries."
CONCEPT = "A first admission and one after a preemption are counted apart; the sender hears of the first."
EDITS = [
    (
        "stats.record(request.num_tokens, num_hits)",
        "stats.record(request.num_tokens - num_hits, num_hits)",
    ),
]
