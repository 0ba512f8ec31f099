STORY = "A learner keeps the share free for each request that runs. With two of them nothing is admitted any more."
CONCEPT = "While a request runs, admission leaves a share of all blocks free; when none runs, it does not."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = self.num_watermark_blocks * len(self.running)",
    ),
]
