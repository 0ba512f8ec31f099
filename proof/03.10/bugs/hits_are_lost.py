STORY = "A learner calls the usual way without the blocks that were found."
CONCEPT = "Somebody who was never swapped out is treated as ever, hits and further chunks included."
EDITS = [
    (
        "            return super().allocate_slots(request, num_new_tokens, computed_blocks)\n",
        "            return super().allocate_slots(request, num_new_tokens)\n",
    ),
]
