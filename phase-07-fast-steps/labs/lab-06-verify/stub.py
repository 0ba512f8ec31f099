"""Lab 07.6: Verify and roll back (25 minutes). What must hold is in contract.md."""

from collections.abc import Collection, Sequence

from labkit import todo
from labkit.steps.verified import FILLER


class VerifiedRequest:
    """A prompt and its output tokens, of which the last ones may be unverified.

    token_ids: the prompt and all output tokens. num_verified: of the output tokens, those that stay as they are.
    """

    def __init__(
        self, prompt: Sequence[int], window: int, max_tokens: int, stop_token_ids: Collection[int] = ()
    ) -> None:
        todo("07.6")

    @property
    def is_finished(self) -> bool:
        """Whether a verified token has ended it."""
        todo("07.6")

    def must_verify(self) -> bool:
        """Whether the next step is a verification: the window is full, or the last token would end the request."""
        todo("07.6")

    def rows(self) -> list[int]:
        """The tokens of a verification, `window` of them: the last verified one, the unverified ones, FILLER."""
        todo("07.6")

    def decoded(self, token_id: int) -> None:
        """A free step has sampled this token."""
        todo("07.6")

    def verified(self, token_ids: Sequence[int]) -> list[int]:
        """A verification gave a token behind each of its rows. Returns those that are now verified for good."""
        todo("07.6")
