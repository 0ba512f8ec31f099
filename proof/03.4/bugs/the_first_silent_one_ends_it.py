STORY = (
    "A learner leaves the loop at a request without a token, since inner chunks come last. With two of "
    "them in a step, or one in the middle, those behind it get nothing."
)
CONCEPT = "Every number is a token, 0 as well; a request without a token is passed over, and those after it are not."
EDITS = [
    (
        ("            for token_id in sampled_token_ids.get(request_id, ()):\n"),
        (
            "            if not sampled_token_ids.get(request_id):\n"
            "                break\n"
            "            for token_id in sampled_token_ids.get(request_id, ()):\n"
        ),
    ),
]
