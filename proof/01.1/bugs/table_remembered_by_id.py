STORY = (
    "The widened table is kept, by the id of the array. The runner writes new blocks into the same array, and they"
    " are not seen."
)
CONCEPT = (
    "Each step stands alone: the caller keeps the last one's slots, and writes the next step into the same arrays."
)
EDITS = [
    (
        "def to_slots(",
        """_tables = {}


def to_slots(""",
    ),
    (
        """    block_ids = block_tables[requests, positions // block_size].astype(np.int64)
""",
        """    if _tables.get('id') != id(block_tables):
        _tables.update(id=id(block_tables), table=block_tables.astype(np.int64), array=block_tables)
    block_ids = _tables['table'][requests, positions // block_size]
""",
    ),
]
