STORY = (
    "A learner lets a request that is as long as its model allows say nothing. It has one token left to "
    "say, which ends it."
)
CONCEPT = "In any run chunks are as large as the budget lets them be, and those that catch up sample."
EDITS = [
    (
        "return request.num_computed_tokens + num_scheduled >= request.num_tokens",
        (
            "end = request.num_computed_tokens + num_scheduled\n"
            "        has_room = request.max_model_len is None or request.num_tokens < request.max_model_len\n"
            "        return end >= request.num_tokens and has_room"
        ),
    ),
]
