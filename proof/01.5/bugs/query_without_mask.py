STORY = (
    "The query is loaded without a mask, since the keys beside it are 0. Behind the last head of the last row "
    "there is no memory."
)
CONCEPT = "No place out of the tensors is read or written, and no two programs write the same one."
EDITS = [
    (
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=is_dim, other=0.0).to(tl.float32)
""",
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims).to(tl.float32)
""",
    ),
]
