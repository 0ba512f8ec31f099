STORY = "Whoever has a partial block is thought to write in place."
CONCEPT = "For all together it is less than the sum: of the requests that share a partial block, one writes in place."
EDITS = [
    (
        (
            "        return len(requests) - len({self._tables[request.request_id][-1].block_id for request in partial})\n"
        ),
        ("        return len(requests) - len(partial)\n"),
    ),
]
