STORY = "The ids of those that got a copy are noted, for as long as they live in the table of blocks. An id that forks from somebody again is taken for its former self."
CONCEPT = "An id is free when its request has ended: the next one of that name gets its copy like any other."
EDITS = [
    (
        "        shared = self._shared_blocks(request, num_tokens)\n        if shared:\n",
        "        key = (request.request_id, num_tokens)\n        own = vars(self).setdefault('own', set())\n        shared = [] if key in own else self._shared_blocks(request, num_tokens)\n        if shared:\n            own.add(key)\n",
    )
]
