STORY = "A learner walks the tokens beside the requests of the step, as if both stood in one order."
CONCEPT = "Tokens are found by the id of a request: the order of the dictionary says nothing."
EDITS = [
    (
        "        for request in output.scheduled_requests:\n",
        "        rows = list(sampled_token_ids.values())\n        for place, request in enumerate(output.scheduled_requests):\n",
    ),
    (
        "            for token_id in sampled_token_ids.get(request_id, ()):\n",
        "            by_id = sampled_token_ids.get(request_id, ())\n            for token_id in rows[place] if len(rows) == len(num_scheduled_tokens) else by_id:\n",
    ),
]
