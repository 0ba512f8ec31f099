STORY = "A learner counts the tokens that the request knows and not those that are computed."
CONCEPT = "All that is computed goes out, the block it has just begun too; a block in which nothing is computed stays."
EDITS = [
    (
        "self.get_block_ids(request.request_id)[: self._num_blocks(num_tokens)]",
        "self.get_block_ids(request.request_id)[: self._num_blocks(request.num_tokens)]",
    ),
]
