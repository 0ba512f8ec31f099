STORY = "A learner takes None for the end of it: no room on the device, so it computes again later."
CONCEPT = "Room is for what comes back and for what is to be computed: one block too few is None."
EDITS = [
    (
        "        new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)\n",
        (
            "        new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)\n"
            "        if new_blocks is None:\n"
            "            self.connector.request_finished(request)\n"
        ),
    ),
]
