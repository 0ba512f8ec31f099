STORY = (
    "A learner drops the tokens that go beyond the length of the model without asking whether the request "
    "has ended. A request with several tokens never finishes."
)
CONCEPT = "In any run a step leaves the counters, the tokens, the lists and the blocks as they have to be."
EDITS = [
    (
        ("            for token_id in sampled_token_ids.get(request_id, ()):\n"),
        (
            "            for token_id in sampled_token_ids.get(request_id, ()):\n"
            "                if request.num_tokens + 1 >= self.max_model_len and len(sampled_token_ids[request_id]) > 1:\n"
            "                    break\n"
        ),
    ),
]
