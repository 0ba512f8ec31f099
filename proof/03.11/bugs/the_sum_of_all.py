STORY = "The prices are added up. A group whose tokens fit exactly is preempted, again and again."
CONCEPT = "For all together it is less than the sum: of the requests that share a partial block, one writes in place."
EDITS = [
    (
        (
            "        return len(requests) - len({self._tables[request.request_id][-1].block_id for request in partial})\n"
        ),
        (
            "        return sum(self.num_blocks_needed(request, request.num_computed_tokens + 1) for request in requests)\n"
        ),
    ),
]
