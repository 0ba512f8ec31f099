STORY = "A learner compares with < and never uses the last block. A request that needs the whole cache waits for ever."
CONCEPT = "A request is admitted if the blocks for all that it knows are free now, to the last one."
EDITS = [
    (
        "+ num_spare <= kv.num_free_blocks",
        "+ num_spare < kv.num_free_blocks",
    ),
]
