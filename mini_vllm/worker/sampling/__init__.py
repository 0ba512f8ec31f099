"""Sampling for which the host does not wait: parameters and tokens on the device, by row.

table.py        what is remembered of each request; a step sends what is new
parts.py        the rows of a step that are sampled alike, and what they need
logits.py       biases, bans and penalties, for all rows of a part at once
candidates.py   min_p, top_k, top_p
logprobs.py     log-probabilities
"""
