STORY = "A learner takes the last blocks of the table. They are the same ones as long as no slot was given ahead."
CONCEPT = "All that is computed goes out, the block it has just begun too; a block in which nothing is computed stays."
EDITS = [
    (
        "self.get_block_ids(request.request_id)[: self._num_blocks(num_tokens)]",
        "self.get_block_ids(request.request_id)[-self._num_blocks(num_tokens) :]",
    ),
]
