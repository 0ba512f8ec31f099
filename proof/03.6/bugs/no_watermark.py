STORY = "A learner forgets the watermark. Newcomers take the last blocks, and the next decode preempts them."
CONCEPT = "While anything runs, admission leaves a share of all blocks free; with an idle engine it does not."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = 0",
    ),
]
