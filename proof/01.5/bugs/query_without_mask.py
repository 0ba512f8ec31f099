STORY = (
    "The query is loaded without a mask, since the keys beside it are 0. Behind the last head of the last row "
    "there is no memory."
)
CONCEPT = "Every place in sight is read, each of the output is written by one program, and nothing else is touched."
EDITS = [
    (
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=is_dim, other=0.0).to(tl.float32)
""",
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims).to(tl.float32)
""",
    ),
]
