STORY = "Query heads are dealt out to the KV heads in turn. A group's heads stand side by side in the checkpoint."
CONCEPT = "Query heads of a group are neighbours and share a KV head: head h reads h // GROUP_SIZE."
EDITS = [
    (
        "    kv_head = head // GROUP_SIZE",
        "    kv_head = head % NUM_KV_HEADS",
    ),
]
