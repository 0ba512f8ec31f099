STORY = (
    "The correction is forgotten, since each piece looks right by itself. Sums relative to different maxima are added."
)
CONCEPT = "A new maximum scales both sums down, by exp(old maximum - new maximum), at every piece."
EDITS = [
    (
        "self.normaliser * correction + weights",
        "self.normaliser + weights",
    ),
    (
        "self.weighted_sum * correction[..., None] + torch",
        "self.weighted_sum + torch",
    ),
]
