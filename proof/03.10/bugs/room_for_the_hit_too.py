STORY = "A learner asks for slots for everything that was swapped out, although the hit brings its own."
CONCEPT = "A hit brings its own blocks: room is needed for what lies behind it, and for what is computed."
EDITS = [
    (
        "        new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)\n",
        "        new_blocks = super().allocate_slots(request, end + num_new_tokens, computed_blocks)\n",
    ),
]
