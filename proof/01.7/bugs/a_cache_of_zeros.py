STORY = "The caches begin as zeros, as a new tensor does. A value of 0 with a weight of 0 is as good as none."
CONCEPT = "A read beyond the sight is noticed only if the value that lies there does harm."
EDITS = [
    (
        "cache = torch.full((max(table) + 2, block_size, *tokens.shape[1:]), torch.nan)",
        "cache = torch.zeros((max(table) + 2, block_size, *tokens.shape[1:]))",
    ),
    (
        "key_cache, value_cache = torch.full((11, 3, 2, 8), torch.nan), torch.full((11, 3, 2, 8), torch.nan)",
        "key_cache, value_cache = torch.zeros((11, 3, 2, 8)), torch.zeros((11, 3, 2, 8))",
    ),
]
