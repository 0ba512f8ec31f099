STORY = "A learner counts a copy for the second and for the third holder of a block, and none for those behind them."
CONCEPT = "For all together it is less than the sum: of the requests that share a partial block, one writes in place."
EDITS = [
    (
        "        return len(requests) - len({self._tables[request.request_id][-1].block_id for request in partial})\n",
        "        holders: dict[int, int] = {}\n        for request in partial:\n            block_id = self._tables[request.request_id][-1].block_id\n            holders[block_id] = holders.get(block_id, 0) + 1\n        return len(requests) - len(partial) + sum(min(num - 1, 2) for num in holders.values())\n",
    ),
]
