STORY = (
    "A learner lets a victim take the blocks that the watermark keeps, because it had them before. Those "
    "that run need them for their next token."
)
CONCEPT = "The watermark holds for a victim as for a newcomer."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = self.num_watermark_blocks if self.running and request.num_preemptions == 0 else 0",
    ),
]
