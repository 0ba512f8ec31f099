STORY = (
    "Blocks are copied as a whole, so a learner asks for the price of whole blocks. The cost is one of computed tokens."
)
CONCEPT = (
    "After any steps, failed ones too, each request reads its own tokens, and main memory has the waiting ones only."
)
EDITS = [
    (
        '        elif num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n',
        '        elif num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(self._num_blocks(num_tokens) * self.block_size)):\n',
    )
]
