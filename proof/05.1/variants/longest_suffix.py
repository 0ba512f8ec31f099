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
