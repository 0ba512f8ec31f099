STORY = "A learner asks for more than one running request. The first that runs is not protected."
CONCEPT = "While a request runs, admission leaves a share of all blocks free; when none runs, it does not."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = self.num_watermark_blocks if len(self.running) > 1 else 0",
    ),
]
