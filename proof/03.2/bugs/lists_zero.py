STORY = (
    "A learner lists running requests that find the budget empty. The runner gets a row of 0 tokens, whose logits"
    " are those of its neighbour."
)
CONCEPT = "A request that gets no token is not in the step: it keeps its place and takes no block."
EDITS = [
    (
        ("            if n == 0:\n                continue\n"),
        "",
    ),
]
