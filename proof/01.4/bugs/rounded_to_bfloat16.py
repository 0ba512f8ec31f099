STORY = (
    "The kernel converts to bfloat16, the dtype of most checkpoints. In float32 the last bits of every key are lost."
)
CONCEPT = "A key is copied, not computed with: 100,000 is a bfloat16 and no float16."
EDITS = [
    (
        "tl.load(key_ptr + token * key_stride + numbers, mask=mask)",
        "tl.load(key_ptr + token * key_stride + numbers, mask=mask).to(tl.bfloat16)",
    ),
]
