"""Which steps are recorded, and how much of a forward.

Source: CUDAGraphMode and resolve_cudagraph_mode_and_sizes in vllm/config/compilation.py, and
AttentionCGSupport in vllm/v1/attention/backend.py.
"""

from enum import Enum, IntEnum


class CUDAGraphMode(Enum):
    """NONE, PIECEWISE and FULL are what one step may run as, too.

    FULL is the whole forward, PIECEWISE all of it but attention. A pair has the mode of steps of
    decodes alone, then that of the other steps.
    """

    NONE = 0
    PIECEWISE = 1
    FULL = 2
    FULL_DECODE_ONLY = (2, 0)
    FULL_AND_PIECEWISE = (2, 1)

    @property
    def decode(self) -> "CUDAGraphMode":
        """The mode of steps of decodes alone."""
        return CUDAGraphMode(self.value[0]) if self.is_pair else self

    @property
    def mixed(self) -> "CUDAGraphMode":
        """The mode of the other steps."""
        return CUDAGraphMode(self.value[1]) if self.is_pair else self

    @property
    def is_pair(self) -> bool:
        return isinstance(self.value, tuple)


class AttentionCGSupport(IntEnum):
    """Which batches a back end's attention can be recorded for; a later name includes the earlier
    ones.
    """

    NEVER = 0
    UNIFORM_SINGLE_TOKEN_DECODE = 1
    UNIFORM_BATCH = 2  # all requests have the same number of tokens, as decodes with drafts have
    ALWAYS = 3


def lower(
    mode: CUDAGraphMode, support: AttentionCGSupport, decode_query_len: int = 1
) -> CUDAGraphMode:
    """The mode that the back end's support leaves of `mode`.

    decode_query_len: tokens of a decode, 1 and the drafts. vLLM raises ValueError for FULL with
    NEVER; here such a step is recorded piecewise, which every back end takes.
    """
    if mode is CUDAGraphMode.FULL and support < AttentionCGSupport.ALWAYS:
        mode = CUDAGraphMode.FULL_AND_PIECEWISE
    needed = (
        AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE
        if decode_query_len == 1
        else AttentionCGSupport.UNIFORM_BATCH
    )
    if mode.decode is CUDAGraphMode.FULL and support < needed:
        mode = CUDAGraphMode.PIECEWISE
    return mode
