STORY = (
    "The different last blocks are counted, full ones too. But nobody writes into a full block, so each "
    "needs a new one."
)
CONCEPT = "For all together it is less than the sum: of the requests that share a partial block, one writes in place."
EDITS = [
    (
        ("        partial = [request for request in requests if request.num_computed_tokens % self.block_size]\n"),
        ("        partial = requests\n"),
    ),
]
