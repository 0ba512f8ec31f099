STORY = "Only copies are counted. Those whose last block is full need a new one."
CONCEPT = "For all together it is less than the sum: of the requests that share a partial block, one writes in place."
EDITS = [
    (
        (
            "        return len(requests) - len({self._tables[request.request_id][-1].block_id for request in partial})\n"
        ),
        ("        return len(partial) - len({self._tables[request.request_id][-1].block_id for request in partial})\n"),
    ),
]
