STORY = (
    "The parent's table is taken without asking whether it has one. A request that is preempted before it "
    "computes anything cannot fork."
)
CONCEPT = "A fork of a request that holds no blocks holds none: it has no table, not even an empty one."
EDITS = [
    (
        "self._tables.get(parent.request_id, [])",
        "self._tables[parent.request_id]",
    ),
]
