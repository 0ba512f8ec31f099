STORY = "A learner leaves the null block out of the share. At some sizes one block less stays free than in vLLM."
CONCEPT = "The share is of all blocks, the null block with them, and counts whole blocks only."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = int(self.watermark * kv.num_usable_blocks) if self.running else 0",
    ),
]
