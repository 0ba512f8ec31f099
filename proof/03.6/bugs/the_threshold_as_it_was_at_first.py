STORY = "A learner keeps the threshold in the scheduler when it is asked for first. When it is changed, the old one counts on."
CONCEPT = "The options are those of the moment: one that is changed between two questions counts from then on."
EDITS = [
    (
        "        threshold = self.long_prefill_token_threshold\n",
        '        threshold = self.__dict__.setdefault("_threshold", self.long_prefill_token_threshold)\n',
    )
]
