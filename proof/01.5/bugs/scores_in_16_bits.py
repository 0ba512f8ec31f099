STORY = (
    "Query and keys are multiplied in the dtype of the cache. A product near 2048 is off by up to 1, its weight "
    "by a factor of 3."
)
CONCEPT = "16 bits are for storing: the arithmetic is float32, and the result is rounded once."
EDITS = [
    (
        """        scores = tl.sum(keys * query[None, :], axis=1) * scale
""",
        """        products = round_to(tl.sum(keys * query[None, :], axis=1), query_ptr.dtype.element_ty)
        scores = products.to(tl.float32) * scale
""",
    ),
]
