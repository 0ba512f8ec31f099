STORY = "A learner rounds to the nearest whole number. The decisions are vLLM's at half of the sizes."
CONCEPT = "The share is of all blocks, the null block with them, and counts whole blocks only."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = round(self.watermark * kv.num_blocks) if self.running else 0",
    ),
]
