STORY = (
    "The sum of the weights is rounded after every block. bfloat16 counts to 256, and then one more changes nothing."
)
CONCEPT = "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits."
EDITS = [
    (
        """        normaliser = normaliser * correction + tl.sum(weights, axis=0)
""",
        """        normaliser = normaliser * correction + tl.sum(weights, axis=0)
        normaliser = round_to(normaliser, value_cache_ptr.dtype.element_ty).to(tl.float32)
""",
    ),
]
