STORY = "The store has no mask. Each head overwrites the beginning of the next, and the last one what lies behind."
CONCEPT = "Every place in sight is read, each of the output is written by one program, and nothing else is touched."
EDITS = [
    (
        "output_ptr.dtype.element_ty), mask=is_dim)",
        "output_ptr.dtype.element_ty))",
    ),
]
