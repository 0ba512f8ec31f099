STORY = "The statistics are left out, since no decision depends on them."
CONCEPT = "A first admission and one after a preemption are counted apart; the sender hears of the first."
EDITS = [
    (
        "            stats.record(request.num_tokens, num_hits)\n",
        "            pass\n",
    ),
]
