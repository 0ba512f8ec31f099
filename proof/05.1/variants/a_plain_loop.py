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
