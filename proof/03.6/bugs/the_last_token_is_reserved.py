STORY = "A learner reserves the whole sequence when one token is left over, since it comes next. The option is off, and a request that fits is refused."
CONCEPT = "A request is admitted if the blocks for all that it knows are free now, to the last one."
EDITS = [
    (
        "        if self.reserve_full_sequence:\n",
        "        if self.reserve_full_sequence or request.num_tokens <= num_tokens + 1:\n",
    )
]
