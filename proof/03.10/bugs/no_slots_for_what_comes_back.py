STORY = "A learner asks for slots for the new tokens alone, and what comes back has no place."
CONCEPT = "It comes back to where it was: the tokens in the CPU pool need no computing."
EDITS = [
    (
        "        new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)\n",
        "        new_blocks = super().allocate_slots(request, num_new_tokens, computed_blocks)\n",
    ),
]
