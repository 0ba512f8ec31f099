STORY = (
    "Each program clears the place of the next one, for it to find a 0. Programs have no order: the next one may "
    "have written already."
)
CONCEPT = "Every place in sight is read, each of the output is written by one program, and nothing else is touched."
EDITS = [
    (
        """    output_ptr += (row * NUM_KV_HEADS * GROUP_SIZE + head) * HEAD_DIM
""",
        """    output_ptr += (row * NUM_KV_HEADS * GROUP_SIZE + head) * HEAD_DIM
    is_last = (row == tl.num_programs(0) - 1) & (head == tl.num_programs(1) - 1)
    tl.store(output_ptr + HEAD_DIM + dims, round_to(tl.zeros([BLOCK_D], tl.float32), output_ptr.dtype.element_ty), mask=is_dim & (is_last == 0))
""",
    ),
]
