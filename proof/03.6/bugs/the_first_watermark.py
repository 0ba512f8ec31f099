STORY = (
    "A learner keeps the number of blocks to spare in the class. The next scheduler, with another pool, "
    "keeps that of the first."
)
CONCEPT = "In any run both rules answer from the state of the moment, whatever they answered before."
EDITS = [
    (
        "num_spare = self.num_watermark_blocks if self.running else 0",
        (
            'Scheduler.spare.setdefault("blocks", self.num_watermark_blocks)\n'
            '        num_spare = Scheduler.spare["blocks"] if self.running else 0'
        ),
    ),
    (
        ('    """What is not defined here is the reference\'s."""\n'),
        ('    """What is not defined here is the reference\'s."""\n\n    spare: dict = {}\n'),
    ),
]
