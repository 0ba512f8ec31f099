STORY = (
    "A learner asks whether another request is in flight, and not whether one runs. With two that wait on "
    "an idle engine, the first one is refused, though nobody needs the blocks."
)
CONCEPT = "In any run both rules answer from the state of the moment, whatever they answered before."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        "num_spare = self.num_watermark_blocks if len(self._requests) > 1 else 0",
    ),
]
