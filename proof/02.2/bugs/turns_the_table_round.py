STORY = (
    "table.reverse() is shorter than reversed(table), and it changes the caller's list. Who looks at the table "
    "afterwards takes the tail for the head."
)
CONCEPT = "Freed more often than held is an error that must be seen, and the caller keeps the list given."
EDITS = [
    (
        """        for block in reversed(table):
""",
        """        table = table if isinstance(table, list) else list(table)
        table.reverse()
        for block in table:
""",
    ),
]
