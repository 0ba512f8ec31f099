# === a_plain_loop
"""Every place is compared in Python, and nothing is kept between two calls."""

from mini_vllm.request import Request


class NgramProposer:
    def __init__(self, min_n: int, max_n: int) -> None:
        self.sizes = range(max_n, min_n - 1, -1)

    def propose(self, request: Request, num_tokens: int) -> list[int]:
        text = request.all_token_ids
        for n in self.sizes:
            tail = text[-n:]
            for start in range(len(text) - n):
                if text[start : start + n] == tail:
                    return text[start + n : start + n + num_tokens]
        return []

    def forget(self, request: Request) -> None:
        pass


# === first_places
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


# === longest_suffix
"""One walk over the text: at each end of a place, how many tokens before it equal those at the end of the text."""

from mini_vllm.request import Request


class NgramProposer:
    def __init__(self, min_n: int, max_n: int) -> None:
        self.min_n, self.max_n = min_n, max_n

    def propose(self, request: Request, num_tokens: int) -> list[int]:
        text, best, found = request.all_token_ids, self.min_n - 1, None
        for start in range(1, len(text)):  # of what would be drafts
            length, most = 0, min(self.max_n, start)
            while length < most and text[start - 1 - length] == text[-1 - length]:
                length += 1
            if length > best:
                best, found = length, start
        return [] if found is None else text[found : found + num_tokens]

    def forget(self, request: Request) -> None:
        return None


# === searched_as_bytes
"""The text is kept as bytes, four for each token, and the search of bytes finds the place."""

from array import array

from mini_vllm.request import Request


class NgramProposer:
    def __init__(self, min_n: int, max_n: int) -> None:
        self.min_n, self.max_n = min_n, max_n
        self.texts: dict[str, bytearray] = {}

    def propose(self, request: Request, num_tokens: int) -> list[int]:
        tokens = request.all_token_ids
        text = self.texts.setdefault(request.request_id, bytearray())
        text += array("i", tokens[len(text) // 4 :]).tobytes()
        for n in range(min(self.max_n, len(tokens) - 1), self.min_n - 1, -1):
            tail = text[-4 * n :]
            place = text.find(tail, 0, len(text) - 4)
            while place >= 0 and place % 4:  # it begins within a token
                place = text.find(tail, place + 1, len(text) - 4)
            if place >= 0:
                return tokens[place // 4 + n : place // 4 + n + num_tokens]
        return []

    def forget(self, request: Request) -> None:
        self.texts.pop(request.request_id, None)
