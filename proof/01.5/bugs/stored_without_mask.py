STORY = "The store has no mask. Each head overwrites the beginning of the next, and the last one what lies behind."
CONCEPT = "A head is padded to a power of two; what pads it belongs to the next head, or to nobody."
EDITS = [
    (
        "output_ptr.dtype.element_ty), mask=is_dim)",
        "output_ptr.dtype.element_ty))",
    ),
]
