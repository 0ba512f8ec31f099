STORY = (
    "When there is no room for the copy it tries again, in the hope that somebody has finished. Nobody "
    "can while it tries."
)
CONCEPT = "All or nothing: one block too few gives None, and nothing shows that a request asked."
EDITS = [
    (
        (
            "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n"
            "                return None\n"
        ),
        (
            "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n"
            "                return self.allocate_slots(request, num_new_tokens, computed_blocks)\n"
        ),
    ),
]
