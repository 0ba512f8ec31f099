STORY = "A learner asks for slots for everything that was swapped out, although the hit brings its own."
CONCEPT = "What the prefix cache finds is not copied: only what lies behind it comes from the CPU pool."
EDITS = [
    (
        "        new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)\n",
        "        new_blocks = super().allocate_slots(request, end + num_new_tokens, computed_blocks)\n",
    ),
]
