STORY = "A victim whose blocks others hold, too, is not copied out: the prefix cache has them, thinks a learner. The others go, and nobody has them."
CONCEPT = (
    "After any steps, failed ones too, each request reads its own tokens, and main memory has the waiting ones only."
)
EDITS = [
    (
        '        elif num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n',
        '        elif num_tokens and any(block.ref_cnt == 1 for block in self._tables[request.request_id][: num_tokens // self.block_size] or self._tables[request.request_id]) and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n',
    )
]
