STORY = "A learner frees the blocks of the device alone, as before."
CONCEPT = "A request that has ended holds no block, neither on the device nor in main memory."
EDITS = [
    (
        (
            "        if request.is_finished:\n"
            "            self.connector.request_finished(request)\n"
            '        elif num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n'
        ),
        '        if num_tokens and not request.is_finished and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n',
    ),
]
