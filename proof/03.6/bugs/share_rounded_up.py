STORY = (
    "A learner rounds the share up, to be on the safe side. Now and then a request waits for one block more than "
    "in vLLM."
)
CONCEPT = "The share is of all blocks, the null block with them, and counts whole blocks only."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = -int(-self.watermark * kv.num_blocks // 1) if self.running else 0",
    ),
]
