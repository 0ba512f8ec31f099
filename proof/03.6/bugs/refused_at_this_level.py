STORY = (
    "A learner does not ask again while as many blocks are free as at the last refusal. Meanwhile "
    "somebody may hold the hit, or nothing may run any more."
)
CONCEPT = "A price holds for the moment: the same question has another answer when a hit is held or let go."
EDITS = [
    (
        "return kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks",
        (
            'refused = self.__dict__.setdefault("_refused", {})\n'
            "        if refused.get(request.request_id) == kv.num_free_blocks:\n"
            "            return False\n"
            "        fits = kv.num_blocks_needed(request, num_tokens, computed_blocks) + num_spare <= kv.num_free_blocks\n"
            "        if not fits:\n"
            "            refused[request.request_id] = kv.num_free_blocks\n"
            "        return fits"
        ),
    ),
]
