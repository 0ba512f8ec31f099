STORY = "A learner asks for more than one running request. The first that runs is not protected."
CONCEPT = "While anything runs, admission leaves a share of all blocks free; with an idle engine it does not."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = self.num_watermark_blocks if len(self.running) > 1 else 0",
    ),
]
