"""Lab 05.2: Verification: which drafts were right (25 minutes). What must hold is in contract.md."""

from collections.abc import Sequence

from labkit import todo
from mini_vllm.step import SampledToken, StepInput, StepOutput


def accept(step: StepInput, sampled: Sequence[SampledToken | str]) -> StepOutput:
    """The tokens of each request: after right drafts as many as these, and one more. sampled [S]: a
    token or an error.

    The row behind a draft counts if the draft is the token that was sampled for its place. The
    noise depends on the place alone, so these are the tokens that the request would get one by one.
    An error behind a right draft is left to the next step, which meets it again.
    """
    todo("05.2")
