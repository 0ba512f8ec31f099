STORY = (
    "The large scores are no whole numbers, and the bound is that of small ones. float32 cannot hold such scores "
    "any better."
)
CONCEPT = "A test states what must hold, not how it is done: a correct engine passes it."
EDITS = [
    (
        "query = torch.tensor([[1.0], [2**-14]])",
        "query = torch.tensor([[1.2345678], [2**-14]])",
    ),
]
