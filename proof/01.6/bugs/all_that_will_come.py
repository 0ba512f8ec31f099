STORY = (
    "All tokens to come are counted as reserved, also those that have no slot yet. Wasted is less than nothing then."
)
CONCEPT = "Reserved are slots, not tokens: of a last block what will be written; later tokens have no slot yet."
EDITS = [
    (
        "        ever = min(held, jobs[request_id].num_tokens)",
        "        ever = jobs[request_id].num_tokens",
    ),
]
