STORY = (
    "Query heads are dealt out to the KV heads in turn, head h to h % num_kv_heads. Checkpoints keep a group's "
    "heads side by side."
)
CONCEPT = "Query heads of a group are neighbours and share a KV head: head h reads h // group_size."
EDITS = [
    (
        """    grouped = query.float().view(num_kv_heads, -1, head_dim)
""",
        """    grouped = query.float().view(-1, num_kv_heads, head_dim).transpose(0, 1)
""",
    ),
    (
        "    return softmax.result().view(-1, head_dim).to(query.dtype)",
        "    return softmax.result().transpose(0, 1).reshape(-1, head_dim).to(query.dtype)",
    ),
]
