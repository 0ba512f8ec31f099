STORY = "A victim is taken for a decode: whatever it had, one token comes back."
CONCEPT = "A dropped request is in neither the list nor the counts of the step; the others keep their order."
EDITS = [
    (
        "        return num_tokens\n",
        "        return min(num_tokens, 1)\n",
    ),
]
