STORY = (
    "The keys are masked by what is visible alone. The numbers behind the last one of a head are the next slot's, "
    "and 0 times NaN is NaN."
)
CONCEPT = "A head is padded to a power of two; the padding belongs to the next head, or to no head."
EDITS = [
    (
        """        keys = tl.load(key_cache_ptr + numbers, mask=mask, other=0.0).to(tl.float32)
""",
        """        keys = tl.load(key_cache_ptr + numbers, mask=visible[:, None], other=0.0).to(tl.float32)
""",
    ),
]
