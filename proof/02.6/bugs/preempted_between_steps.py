STORY = "Requests give way between two steps only. What was promised and not written never shows."
CONCEPT = "What was overwritten must not be found: take a block, and ask for what was in it."
EDITS = [
    (
        "        books.come(a, runs=False)\n",
        "",
    ),
]
