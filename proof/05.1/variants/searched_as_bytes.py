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
