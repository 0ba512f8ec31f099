STORY = (
    "A release that is one too many passes in silence, as in MinivLLM. The count is -1, the next holder brings "
    "it to nothing, and the block is handed out while it is read."
)
CONCEPT = "Freed more often than held is an error that must be seen, wherever the block stands."
EDITS = [
    (
        """            assert block.ref_cnt > 0, f"{block} is freed more often than it is held"
""",
        "",
    ),
]
