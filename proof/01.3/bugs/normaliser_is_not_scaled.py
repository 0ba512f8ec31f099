STORY = "Only the sum of values is scaled. The weights no longer add up to 1."
CONCEPT = "A new maximum scales both sums down, by exp(old maximum - new maximum), at every piece."
EDITS = [
    (
        "self.normaliser * correction + weights",
        "self.normaliser + weights",
    ),
]
