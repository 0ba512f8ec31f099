STORY = "Rows of the query are taken to be contiguous. In a model they are a part of the QKV matrix."
CONCEPT = "Queries are parts of a wider matrix: the next row begins query_stride further on."
EDITS = [
    (
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=is_dim, other=0.0).to(tl.float32)
""",
        """    query = tl.load(query_ptr + row * (NUM_KV_HEADS * GROUP_SIZE * HEAD_DIM) + head * HEAD_DIM + dims, mask=is_dim, other=0.0).to(tl.float32)
""",
    ),
]
