STORY = "A learner takes an empty list for the end of the answer. The requests after it miss their token."
CONCEPT = "Every number is a token, 0 as well; a request without a token is passed over, and those after it are not."
EDITS = [
    (
        "            for token_id in sampled_token_ids.get(request_id, ()):\n",
        (
            "            if not sampled_token_ids.get(request_id, (0,)):\n"
            "                break\n"
            "            for token_id in sampled_token_ids.get(request_id, ()):\n"
        ),
    ),
]
