STORY = (
    "A learner lists whoever runs, also when the budget is spent. The runner gets a row of 0 tokens, whose "
    "logits are those of its neighbour."
)
CONCEPT = "A step of decodes has a budget, too; a request that finds it empty is no part of the step."
BASE = "own_loop"
EDITS = [
    (
        ("            if n == 0:\n                break\n"),
        "",
    ),
]
