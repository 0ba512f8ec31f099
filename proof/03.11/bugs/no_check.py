STORY = (
    "New blocks are taken without a look at how many are free. The pool raises an error where None was to "
    "be the answer."
)
CONCEPT = "All or nothing: one block too few gives None, and nothing shows that a request asked."
EDITS = [
    (
        (
            "            if self.num_blocks_needed(request, num_tokens) > self.num_free_blocks:\n"
            "                return None\n"
        ),
        "",
    ),
]
