STORY = (
    "The sum is divided by the normaliser whatever it is. Padded rows become NaN and spread through the next "
    "layer (seen in vLLM PR#38436)."
)
CONCEPT = "The softmax of nothing is 0 here: rows of no request, and of a request without tokens."
EDITS = [
    (
        "    result = weighted_sum / tl.where(normaliser > 0.0, normaliser, 1.0)",
        "    result = weighted_sum / normaliser",
    ),
]
