STORY = (
    "A request that a failed step throws out keeps its CPU blocks, and its count of tokens is brought up to date."
    " Tokens that were found on the device are counted as saved."
)
CONCEPT = "Main memory has what was copied there, and not what its request found elsewhere later."
EDITS = [
    (
        "        if request_id in self._num_tokens:  # it was about to come back when the step failed\n            return\n",
        "        if request_id in self._num_tokens:\n            self._num_tokens[request_id] = request.num_computed_tokens\n            return\n",
    ),
]
