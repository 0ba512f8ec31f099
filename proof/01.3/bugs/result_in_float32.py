STORY = "The result stays float32. The next layer's matrix product refuses it."
CONCEPT = "bfloat16 is for storing: the arithmetic is float32, and the result is rounded once."
EDITS = [
    (
        "    return softmax.result().view(-1, head_dim).to(query.dtype)",
        "    return softmax.result().view(-1, head_dim)",
    ),
]
