STORY = "The entries are taken out as they are counted. The caller's next step has no request that runs."
CONCEPT = "The count is a Usage of whole numbers, and what it was made from stays as it was."
EDITS = [
    (
        """    for request_id, num_written in written.items():
""",
        """    while written:
        request_id, num_written = written.popitem()
""",
    ),
]
