STORY = "Without chunks the newcomer's chunk is not compared with the budget."
CONCEPT = "Without chunked prefill the budget cuts no newcomer: it waits for a step that holds it, and so do others."
EDITS = [
    (
        "            if n > token_budget or not",
        "            if not",
    ),
]
