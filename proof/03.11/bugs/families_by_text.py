STORY = "A learner takes for a family who knows the same tokens. Two families of one text are two families."
CONCEPT = "For all together it is less than the sum: of the requests that share a partial block, one writes in place."
EDITS = [
    (
        "        return len(requests) - len({self._tables[request.request_id][-1].block_id for request in partial})\n",
        "        return len(requests) - len({tuple(request.all_token_ids[: request.num_computed_tokens]) for request in partial})\n",
    ),
]
