STORY = "A learner forgets the watermark. Newcomers take the last blocks, and the next decode preempts them."
CONCEPT = "While a request runs, admission leaves a share of all blocks free; when none runs, it does not."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = 0",
    ),
]
