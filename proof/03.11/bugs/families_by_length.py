STORY = "For the price of all together the partial blocks are told apart by how many tokens are in them. Two families of the same length are one, then."
CONCEPT = "After any forks, writes and frees each request reads its own past, at the price that was computed."
EDITS = [
    (
        "len({self._tables[request.request_id][-1].block_id for request in partial})",
        "len({(len(self._tables[request.request_id]), request.num_computed_tokens, tuple(self.get_block_ids(request.request_id)[:-1])) for request in partial})",
    )
]
