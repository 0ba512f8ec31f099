STORY = "A learner asks for the cost of all tokens that the request knows. Only the computed ones would be copied."
CONCEPT = 'A victim goes the cheaper way: with "swap" always out, with "cheaper" only when that costs less.'
EDITS = [
    (
        '        elif num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)):\n',
        '        elif num_tokens and (self.preemption_mode == "swap" or self.cost.swap_is_cheaper(request.num_tokens)):\n',
    ),
]
