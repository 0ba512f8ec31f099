STORY = "A request that holds nothing makes free() raise. One that is aborted while it waits takes the engine down."
CONCEPT = "All is given back, the head to be taken last, and the request holds no table any more."
EDITS = [
    ("self._tables.pop(request.request_id, [])", "self._tables.pop(request.request_id)"),
]
