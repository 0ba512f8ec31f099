STORY = (
    "A conversion to float16 is left over from an older model. Large keys become infinite, and small steps are lost."
)
CONCEPT = "A key is copied, not computed with: 100,000 is a bfloat16 and no float16."
EDITS = [
    (
        "tl.load(key_ptr + token * key_stride + numbers, mask=mask)",
        "tl.load(key_ptr + token * key_stride + numbers, mask=mask).to(tl.float16)",
    ),
    (
        "tl.load(value_ptr + token * value_stride + numbers, mask=mask)",
        "tl.load(value_ptr + token * value_stride + numbers, mask=mask).to(tl.float16)",
    ),
]
