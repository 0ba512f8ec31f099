STORY = "The query is scaled once, and kept as it was stored. What nearly cancels does not any more."
CONCEPT = "Scores, weights and sums are float32: what nearly cancels shows when one of them was rounded to 16 bits."
EDITS = [
    (
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=is_dim, other=0.0).to(tl.float32)
""",
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=is_dim, other=0.0).to(tl.float32)
    query = round_to(query * scale, query_ptr.dtype.element_ty).to(tl.float32)
""",
    ),
    (
        """        scores = tl.sum(keys * query[None, :], axis=1) * scale
""",
        """        scores = tl.sum(keys * query[None, :], axis=1)
""",
    ),
]
