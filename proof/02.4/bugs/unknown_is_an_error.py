STORY = "A request that holds nothing makes free() raise. One that is aborted while it waits takes the engine down."
CONCEPT = "A request that holds nothing is left alone, before it was admitted and after it was freed."
EDITS = [
    ("self._tables.pop(request.request_id, [])", "self._tables.pop(request.request_id)"),
]
