STORY = "Three requests share and the books are compared when all of them are gone. All is well in the end."
CONCEPT = "A count of holders is right only if all of them are counted: let three share, and leave."
EDITS = [
    (
        "            books.leave(request)\n",
        "            books.kv.free(request)\n",
    ),
]
