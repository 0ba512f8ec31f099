STORY = (
    "A recursion cuts the range at block edges until it lies within one block. A range that ends at an edge is "
    "cut into nothing and itself, for ever."
)
CONCEPT = "The last block may be full or not: positions up to end - 1 count, and end does not."
EDITS = [
    (
        """    for block in range(begin // block_size, -(-end // block_size)):
        block_start = block * block_size
        tokens = slice(max(begin - block_start, 0), min(end - block_start, block_size))
        keys = key_cache[block_table[block], tokens].float()
        values = value_cache[block_table[block], tokens].float()
        scores = torch.einsum("hgd,nhd->hgn", grouped, keys) * scale
        softmax.add(scores, values)
    return softmax.result().view(-1, head_dim).to(query.dtype)""",
        """
    def walk(begin: int, end: int) -> None:
        block = begin // block_size
        if block != end // block_size:
            walk(begin, (block + 1) * block_size)
            return walk((block + 1) * block_size, end)
        tokens = slice(begin - block * block_size, end - block * block_size)
        scores = torch.einsum("hgd,nhd->hgn", grouped, key_cache[block_table[block], tokens].float()) * scale
        softmax.add(scores, value_cache[block_table[block], tokens].float())

    walk(begin, end)
    return softmax.result().view(-1, head_dim).to(query.dtype)""",
    ),
]
