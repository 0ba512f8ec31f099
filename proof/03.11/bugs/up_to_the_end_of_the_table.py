STORY = "Every shared block from the counter on is replaced, also those that the tokens do not reach."
CONCEPT = "Several tokens may go into several shared blocks: each that is written is replaced, the others are not."
EDITS = [
    (
        ("        end = min(-(-num_tokens // self.block_size), len(table))\n"),
        ("        end = len(table)\n"),
    ),
]
