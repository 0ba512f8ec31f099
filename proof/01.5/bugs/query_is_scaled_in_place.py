STORY = "The scaled query is stored where the query was. The next launch scales it again."
CONCEPT = "What is passed is read, not changed."
EDITS = [
    (
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=is_dim, other=0.0).to(tl.float32)
""",
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=is_dim, other=0.0).to(tl.float32)
    tl.store(query_ptr + row * query_stride + head * HEAD_DIM + dims, round_to(query * scale, query_ptr.dtype.element_ty), mask=is_dim)
""",
    ),
]
