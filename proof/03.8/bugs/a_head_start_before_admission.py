STORY = (
    "A learner sets the counter when it looks the prefix up, to be ready. A request that is refused keeps it, "
    "and later skips tokens that are gone."
)
CONCEPT = "A refusal changes nothing: a request that does not fit is as it was, its head start not yet taken."
EDITS = [
    (
        ("            if not self._may_admit(request, num_computed + n, computed_blocks):\n                break\n"),
        (
            "            request.num_computed_tokens = num_computed\n"
            "            if not self._may_admit(request, num_computed + n, computed_blocks):\n"
            "                break\n"
            "            request.num_computed_tokens = 0\n"
        ),
    ),
]
