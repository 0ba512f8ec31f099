STORY = (
    "A learner asks whether there is a token with its truth. Token 0 is dropped, and the request computes "
    "its last token again."
)
CONCEPT = "Every number is a token, 0 as well; a request without a token is passed over, and those after it are not."
EDITS = [
    (
        ("            for token_id in sampled_token_ids.get(request_id, ()):\n"),
        (
            "            for token_id in sampled_token_ids.get(request_id, ()):\n"
            "                if not token_id:\n"
            "                    continue\n"
        ),
    ),
]
