STORY = "A learner takes the share of what is free now. It shrinks just when it is needed."
CONCEPT = "The share is of all blocks, the null block with them, and counts whole blocks only."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = int(self.watermark * kv.num_free_blocks) if self.running else 0",
    ),
]
