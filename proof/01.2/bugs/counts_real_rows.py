STORY = (
    "Rows are numbered among the tokens that are no padding. Behind a padded row each slot gets the row before its own."
)
CONCEPT = "Padding may stand between tokens; the rows behind it keep their own slots."
EDITS = [
    (
        """        for token, slot in enumerate(metadata.slot_mapping.tolist()):
""",
        """        for token, slot in enumerate([slot for slot in metadata.slot_mapping.tolist() if slot >= 0]):
""",
    ),
]
