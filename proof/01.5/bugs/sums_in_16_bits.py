STORY = "The weighted sum is rounded after every block. What nearly cancels is lost."
CONCEPT = "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits."
EDITS = [
    (
        """        weighted_sum = weighted_sum * correction + tl.sum(weights[:, None] * values, axis=0)
""",
        """        weighted_sum = weighted_sum * correction + tl.sum(weights[:, None] * values, axis=0)
        weighted_sum = round_to(weighted_sum, value_cache_ptr.dtype.element_ty).to(tl.float32)
""",
    ),
]
