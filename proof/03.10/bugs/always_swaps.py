STORY = "A learner saves every victim, whatever the mode."
CONCEPT = 'A victim goes the cheaper way: with "swap" always out, with "cheaper" only when that costs less.'
EDITS = [
    (
        '        elif num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n',
        "        elif num_tokens:\n",
    ),
]
