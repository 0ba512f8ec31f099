STORY = "Which way a victim goes is decided once and noted with the request. When it is longer the other way may be the cheaper one."
CONCEPT = "Whether there is room, and which way is cheaper, is asked again each time."
EDITS = [
    (
        '        elif num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n',
        "        elif num_tokens and (self.preemption_mode == \"swap\" or vars(self).setdefault('ways', {}).setdefault(request, self.cost.swap_is_cheaper(num_tokens))):\n",
    )
]
