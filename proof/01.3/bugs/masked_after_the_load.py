STORY = (
    "Whole blocks are read and the scores outside are set to minus infinity. Their weight is 0, but 0 times NaN is NaN."
)
CONCEPT = "What the query does not see is not read: NaN in the slots, ids of no block in the table."
EDITS = [
    (
        """        keys = key_cache[block_table[block], tokens].float()
""",
        """        keys = key_cache[block_table[block]].float()
""",
    ),
    (
        """        values = value_cache[block_table[block], tokens].float()
""",
        """        values = value_cache[block_table[block]].float()
""",
    ),
    (
        """        softmax.add(scores, values)
""",
        """        places = torch.arange(block_size)
        visible = (places >= tokens.start) & (places < tokens.stop)
        softmax.add(scores.masked_fill(~visible, -torch.inf), values)
""",
    ),
]
