STORY = "The KV head is missing from the address. Every query head reads the first one."
CONCEPT = "Query heads of a group are neighbours and share a KV head: head h reads h // GROUP_SIZE."
EDITS = [
    (
        "numbers = (slots[:, None] * NUM_KV_HEADS + kv_head)",
        "numbers = (slots[:, None] * NUM_KV_HEADS + 0 * kv_head)",
    ),
]
