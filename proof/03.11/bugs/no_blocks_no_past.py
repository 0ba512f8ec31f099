STORY = (
    "The names of the blocks are taken over only where there are blocks. A child whose parent holds nothing keeps"
    " those of its own past, and finds what is not its own."
)
CONCEPT = "A child has its parent's past, so what it was before is not in the names of its blocks."
EDITS = [
    (
        "            self._tables[child.request_id] = list(table)\n        child.block_hashes = list(parent.block_hashes)\n",
        "            self._tables[child.request_id] = list(table)\n            child.block_hashes = list(parent.block_hashes)\n",
    ),
]
