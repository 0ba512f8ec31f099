STORY = "What is read is wrong, so the reader must be at fault. It finds the right keys, in the right blocks."
CONCEPT = "The first wrong letter is not the first mistake: go back to the number that cannot be."
EDITS = [
    (
        '"mini_vllm.attention.reference:OnlineSoftmax.add"',
        '"mini_vllm.attention.reference:attend_one"',
    ),
]
