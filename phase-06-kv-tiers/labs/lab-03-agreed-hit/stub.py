"""Lab 06.3: A hit in all groups (35 minutes). What must hold is in contract.md."""

from collections.abc import Callable, Sequence

from labkit import todo
from mini_vllm.offload.hybrid.groups import FullAttention, IsCached, SlidingWindow as ReferenceSlidingWindow
from mini_vllm.offload.hybrid.lookup import AgreedHit, Family


class SlidingWindow(ReferenceSlidingWindow):
    """What is not defined here is the reference's."""

    def find_longest_hit(
        self, is_cached: IsCached, num_tokens: int, alignment: int
    ) -> tuple[int, int]:
        """From the right end: the first window that is cached whole, or a run from the beginning
        on.
        """
        todo("06.3")


def find_agreed_hit(
    families: Sequence[Family],
    is_cached: Callable[[Family], IsCached],
    num_tokens: int,
    alignment: int,
) -> AgreedHit:
    """The longest hit of at most num_tokens tokens. It ends at a multiple of alignment."""
    todo("06.3")
