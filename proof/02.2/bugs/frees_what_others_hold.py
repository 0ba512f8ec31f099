STORY = (
    "Freed is freed: the block goes into the queue although another table holds it. Two requests write to the "
    "same block in the next step."
)
CONCEPT = "A shared block is free when the last holder lets go, not before."
EDITS = [
    (
        """            if block.ref_cnt == 0:
                (useless""",
        """            if block.ref_cnt >= 0:
                (useless""",
    ),
]
