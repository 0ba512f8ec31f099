STORY = "Without chunks a chunk of the threshold's size is refused: it is not all that the request is behind."
CONCEPT = "Without chunked prefill the budget cuts no newcomer: it waits for a step that holds it, and so do others."
EDITS = [
    (
        "            if n > token_budget or",
        "            whole = self.enable_chunked_prefill or n == request.num_tokens - num_computed\n            if n > token_budget or not whole or",
    ),
]
