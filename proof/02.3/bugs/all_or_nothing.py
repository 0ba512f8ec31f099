STORY = (
    "Only a prompt whose blocks are all there counts as a hit. Chats share a long beginning and differ in the "
    "last question, so nothing is ever found."
)
CONCEPT = "A hit is as long as the common prefix, in whole blocks, and in the order of the prefix."
EDITS = [
    (
        """                    break
""",
        """                    return [], 0
""",
    ),
]
