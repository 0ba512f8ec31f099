STORY = "A learner tries again until the device has room. Nobody else runs meanwhile."
CONCEPT = "Room is for what comes back and for what is to be computed: one block too few is None."
EDITS = [
    (
        "        new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)\n",
        (
            "        new_blocks = None\n"
            "        while new_blocks is None:\n"
            "            new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)\n"
        ),
    ),
]
