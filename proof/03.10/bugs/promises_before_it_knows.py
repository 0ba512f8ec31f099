STORY = "A learner notes that the request comes back before it is known whether there is room."
CONCEPT = "Room is for what comes back and for what is to be computed: one block too few is None."
EDITS = [
    (
        "        new_blocks = super().allocate_slots(request, num_behind + num_new_tokens, computed_blocks)\n",
        (
            "        self._hits[request_id] = start * self.block_size\n"
            "        new_blocks = super().allocate_slots(request, num_behind + num_new_tokens, computed_blocks)\n"
        ),
    ),
    (
        "            self._hits[request_id] = start * self.block_size\n",
        "",
    ),
]
