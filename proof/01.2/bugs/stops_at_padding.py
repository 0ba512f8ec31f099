STORY = (
    "The loop ends at the first -1, since padding comes last in the batches that were tested. A token behind it "
    "is never stored."
)
CONCEPT = "Padding may stand between tokens; the rows behind it keep their own slots."
EDITS = [
    (
        """            if slot >= 0:
""",
        """            if slot < 0:
                break
            if slot >= 0:
""",
    ),
]
