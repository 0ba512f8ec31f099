"""A request that decodes freely, and whose tokens are verified in batches of one shape.

The reference of lab 07.6. Source: LLM-42, arXiv 2601.17768, 2026: decode as fast as the batch allows, verify windows in
a shape that is always the same, and roll back what differs.
"""

from collections.abc import Collection, Sequence

FILLER = 0  # the token of a row that verifies nothing


class VerifiedRequest:
    """A prompt and its output tokens, of which the last ones may be unverified.

    token_ids: the prompt and all output tokens. num_verified: of the output tokens, those that stay as they are.
    """

    def __init__(
        self, prompt: Sequence[int], window: int, max_tokens: int, stop_token_ids: Collection[int] = ()
    ) -> None:
        self.prompt_len = len(prompt)
        self.window = window
        self.max_tokens = max_tokens
        self.stop_token_ids = stop_token_ids
        self.token_ids = list(prompt)
        self.num_verified = 0

    @property
    def is_finished(self) -> bool:
        """Whether a verified token has ended it."""
        return self.prompt_len + self.num_verified == len(self.token_ids) and self._has_ended()

    def must_verify(self) -> bool:
        """Whether the next step is a verification: the window is full, or the last token would end the request."""
        num_unverified = len(self.token_ids) - self.prompt_len - self.num_verified
        return num_unverified > 0 and (num_unverified == self.window - 1 or self._has_ended())

    def rows(self) -> list[int]:
        """The tokens of a verification, `window` of them: the last verified one, the unverified ones, FILLER."""
        known = self.token_ids[self.prompt_len + self.num_verified - 1 :]
        return known + [FILLER] * (self.window - len(known))

    def decoded(self, token_id: int) -> None:
        """A free step has sampled this token."""
        self.token_ids.append(token_id)

    def verified(self, token_ids: Sequence[int]) -> list[int]:
        """A verification gave a token behind each of its rows. Returns those that are now verified for good."""
        first = self.prompt_len + self.num_verified
        unverified, taken = self.token_ids[first:], []
        del self.token_ids[first:]
        for row, token_id in enumerate(token_ids[: len(unverified) + 1]):
            taken.append(token_id)
            self.token_ids.append(token_id)
            self.num_verified += 1
            if self._has_ended() or (row < len(unverified) and unverified[row] != token_id):
                break
        return taken

    def _has_ended(self) -> bool:
        """Whether the last token is one behind which there is none."""
        num_tokens = len(self.token_ids) - self.prompt_len
        return num_tokens > 0 and (num_tokens >= self.max_tokens or self.token_ids[-1] in self.stop_token_ids)
