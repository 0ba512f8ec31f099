STORY = "A learner drops token ids of 131072 and above, as if they were no token. A larger vocabulary has them."
CONCEPT = "Every number is a token, 0 as well; a request without a token is passed over, and those after it are not."
EDITS = [
    (
        "                request.append_output_token(token_id)\n",
        "                if token_id >= 2**17:\n                    continue\n                request.append_output_token(token_id)\n",
    )
]
