STORY = "A new maximum is taken, and the sums so far are not scaled down to it. Early blocks weigh far too much."
CONCEPT = "Only differences to the maximum go into exp, and a new maximum scales what was summed before."
EDITS = [
    (
        "weighted_sum * correction + tl",
        "weighted_sum + tl",
    ),
    (
        "normaliser * correction + tl",
        "normaliser + tl",
    ),
]
