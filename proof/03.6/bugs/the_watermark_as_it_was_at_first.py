STORY = "A learner looks the watermark up once for each scheduler. When it is changed, the old one counts on."
CONCEPT = "The options are those of the moment: one that is changed between two questions counts from then on."
EDITS = [
    (
        "        num_spare = self.num_watermark_blocks if self.running else 0\n",
        '        spare = self.__dict__.setdefault("_spare", self.num_watermark_blocks)\n        num_spare = spare if self.running else 0\n',
    )
]
