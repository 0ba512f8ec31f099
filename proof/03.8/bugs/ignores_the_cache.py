STORY = "A learner never asks what is cached. Every prompt is computed from its first token."
CONCEPT = "A prefix hit is a head start: only what is missing is computed, the rest is shared."
EDITS = [
    (
        "computed_blocks, num_computed = kv.get_computed_blocks(request)",
        "computed_blocks, num_computed = [], 0",
    ),
]
