STORY = (
    "free() lets the blocks go and leaves the table where it was. The second call, after an abort, frees "
    "blocks that belong to others by then."
)
CONCEPT = "All is given back, the head to be taken last, and the request holds no table any more."
EDITS = [
    ("self._tables.pop(request.request_id, [])", "self._tables.get(request.request_id, [])"),
]
