STORY = "A learner notes the load before it is known whether there is room."
CONCEPT = "Room is for what comes back and for what is to be computed: one block too few is None."
EDITS = [
    (
        "        new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)\n",
        (
            "        if start < end:\n"
            "            self._loads[request_id] = Load(request, start, end)\n"
            "        new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)\n"
        ),
    ),
    (
        ("            if start < end:\n                self._loads[request_id] = Load(request, start, end)\n"),
        "",
    ),
]
