STORY = (
    "The weights are rounded to the dtype of the values before they meet, as matrix units want them. Nearly equal "
    "weights become equal."
)
CONCEPT = "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits."
EDITS = [
    (
        """        weighted_sum = weighted_sum * correction + tl.sum(weights[:, None] * values, axis=0)
""",
        """        rounded = round_to(weights, value_cache_ptr.dtype.element_ty).to(tl.float32)
        weighted_sum = weighted_sum * correction + tl.sum(rounded[:, None] * values, axis=0)
""",
    ),
]
