STORY = "The function is right, and its class is left out."
CONCEPT = "The first wrong letter is not the first mistake: go back to the number that cannot be."
EDITS = [
    (
        '"mini_vllm.attention.reference:OnlineSoftmax.add"',
        '"mini_vllm.attention.reference:add"',
    ),
]
