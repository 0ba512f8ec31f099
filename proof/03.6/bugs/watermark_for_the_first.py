STORY = "A learner applies the watermark to an idle engine. A long prompt that fits only alone is never admitted."
CONCEPT = "While a request runs, admission leaves a share of all blocks free; when none runs, it does not."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = self.num_watermark_blocks",
    ),
]
