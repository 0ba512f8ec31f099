STORY = "Keys, values and queries are ones, so that every result is 1. It is 1 with any weights and for any head."
CONCEPT = "Attention has a definition that knows no blocks; what the blocks give is held against it."
EDITS = [
    (
        """    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
""",
        """    return torch.ones(*shape)
""",
    ),
]
