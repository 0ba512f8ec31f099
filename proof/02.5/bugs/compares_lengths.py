STORY = (
    "Only how much is found is compared, with what another call of the same method finds. Of the content "
    "nothing is asked."
)
CONCEPT = "A hit that is false gives wrong answers: write down whose content a block has, and compare."
EDITS = [
    (
        """        assert found[:end] == notes(request, end), f"I5: {request.request_id} reads what is not its own"
""",
        """        assert len(found) >= end or len(block_ids) * self.size >= end
""",
    ),
    (
        'num_hit == len(hits) * self.size < request.num_tokens, "I5: whole blocks, and one token is left"',
        "num_hit == self.kv.get_computed_blocks(request)[1]",
    ),
]
