STORY = (
    "One writes in place, whatever the requests are. But each family has one of its own, and those with "
    "full blocks have none."
)
CONCEPT = "For all together it is less than the sum: of the requests that share a partial block, one writes in place."
EDITS = [
    (
        (
            "        return len(requests) - len({self._tables[request.request_id][-1].block_id for request in partial})\n"
        ),
        ("        return len(requests) - bool(partial)\n"),
    ),
]
