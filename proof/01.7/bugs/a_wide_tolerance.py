STORY = (
    "One of the tests was red by a hair, and the bound was raised until it was green. It is 100 times what "
    "float32 needs."
)
CONCEPT = "Many ways to compute a softmax agree on small scores; the large ones tell them apart."
EDITS = [
    (
        "bound = 1e-5 * values",
        "bound = 1e-3 * values",
    ),
]
