STORY = (
    "The width of a head is not masked in keys and query. The padding of the range is the next head, and its "
    "products are added."
)
CONCEPT = "A head is padded to a power of two; the padding belongs to the next head, or to no head."
EDITS = [
    (
        """    is_dim = dims < HEAD_DIM
""",
        """    is_dim = dims < HEAD_DIM
    everything = dims < BLOCK_D
""",
    ),
    (
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=is_dim, other=0.0).to(tl.float32)
""",
        """    query = tl.load(query_ptr + row * query_stride + head * HEAD_DIM + dims, mask=everything, other=0.0).to(tl.float32)
""",
    ),
    (
        """        mask = visible[:, None] & is_dim[None, :]
""",
        """        mask = visible[:, None] & everything[None, :]
""",
    ),
]
