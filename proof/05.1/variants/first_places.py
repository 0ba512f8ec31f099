"""A dictionary from each n-gram to the place behind the first one, which grows with the text, so a call costs what is new."""

from mini_vllm.request import Request


class NgramProposer:
    def __init__(self, min_n: int, max_n: int) -> None:
        self.min_n, self.max_n = min_n, max_n
        self.known: dict[str, tuple[dict[tuple[int, ...], int], list[int]]] = {}

    def propose(self, request: Request, num_tokens: int) -> tuple[int, ...]:
        text = request.all_token_ids
        places, done = self.known.setdefault(request.request_id, ({}, [0]))
        for end in range(done[0] + 1, len(text)):  # a token follows
            for n in range(self.min_n, min(self.max_n, end) + 1):
                places.setdefault(tuple(text[end - n : end]), end)
        done[0] = max(done[0], len(text) - 1)
        for n in range(self.max_n, self.min_n - 1, -1):
            if n < len(text) and (place := places.get(tuple(text[-n:]))):
                return tuple(text[place : place + num_tokens])
        return ()

    def forget(self, request: Request) -> None:
        if request.request_id in self.known:
            del self.known[request.request_id]
