STORY = (
    "table.reverse() is shorter than reversed(table), and it changes the caller's list. Who looks at the table "
    "afterwards takes the tail for the head."
)
CONCEPT = "Lists belong to the caller: none that is given is changed, and none is kept."
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
