STORY = (
    "A learner keeps the watermark only if that many blocks are free at all, since else nobody could ever "
    "come in. Those that run need them then most of all."
)
CONCEPT = "In any run both rules answer from the state of the moment, whatever they answered before."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        (
            "num_spare = self.num_watermark_blocks if self.running and kv.num_free_blocks > self.num_watermark_blocks else 0"
        ),
    ),
]
