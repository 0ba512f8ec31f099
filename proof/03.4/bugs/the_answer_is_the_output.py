STORY = (
    "A learner takes the list of a first answer for the output itself. It grows with every later token, "
    "and the engine reads it again."
)
CONCEPT = "What the call is given stays as it is: the output of schedule() and the sampled tokens."
EDITS = [
    (
        ("            for token_id in sampled_token_ids.get(request_id, ()):\n"),
        (
            "            if request_id in sampled_token_ids and not request.output_token_ids:\n"
            "                request.output_token_ids = sampled_token_ids[request_id]\n"
            "                first = list(request.output_token_ids)\n"
            "                del request.output_token_ids[:]\n"
            "                sampled_token_ids = {**sampled_token_ids, request_id: first}\n"
            "            for token_id in sampled_token_ids.get(request_id, ()):\n"
        ),
    ),
]
