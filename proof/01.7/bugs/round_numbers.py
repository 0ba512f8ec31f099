STORY = (
    "Whole numbers are easier to read in a message. They are the same in every format, so a rounding on the way "
    "is not seen."
)
CONCEPT = "A write has two sides: what it puts where it belongs, and all that it must leave alone."
EDITS = [
    (
        """    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
""",
        """    return torch.randint(-5, 6, shape, generator=torch.Generator().manual_seed(seed)).float()
""",
    ),
]
