STORY = "The store has no mask. Each head overwrites the beginning of the next, and the last one what lies behind."
CONCEPT = "No place out of the tensors is read or written, and no two programs write the same one."
EDITS = [
    (
        "output_ptr.dtype.element_ty), mask=is_dim)",
        "output_ptr.dtype.element_ty))",
    ),
]
