STORY = "The result stays float32. The next layer's matrix product refuses it."
CONCEPT = "The result has the dtype of the query, whatever the caches store."
EDITS = [
    (
        "    return softmax.result().view(-1, head_dim).to(query.dtype)",
        "    return softmax.result().view(-1, head_dim)",
    ),
]
