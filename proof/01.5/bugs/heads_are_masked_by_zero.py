STORY = "All KV heads of a slot are multiplied, and those of others by 0. NaN in another head is not gone then."
CONCEPT = "NaN in one KV head stays there: the query heads of other KV heads do not see it."
EDITS = [
    (
        """        scores = tl.sum(keys * query[None, :], axis=1) * scale
""",
        """        scores = tl.sum(keys * query[None, :], axis=1) * scale
        for other in range(NUM_KV_HEADS):
            apart = (slots[:, None] * NUM_KV_HEADS + other) * HEAD_DIM + dims[None, :]
            scores += 0.0 * tl.sum(tl.load(key_cache_ptr + apart, mask=mask, other=0.0).to(tl.float32), axis=1)
""",
    ),
]
