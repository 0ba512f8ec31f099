"""A request of a trace as the scheduler sees it: lengths, and names of blocks in the place of token
ids.
"""

from functools import lru_cache

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.workload import HASH_BLOCK_SIZE, TraceRequest
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request


@lru_cache(maxsize=4096)
def _sampling_params(max_tokens: int) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, ignore_eos=True, temperature=0.0)


def block_names(index: int, spec: TraceRequest, block_size: int) -> list[int]:
    """The name of every full block that the request will ever have, prompt and output.

    The KV cache manager hashes what it finds unnamed: a request that brings all names needs no
    token ids. Blocks of the prompt are named by hash id and place, and all later blocks by the
    request's index, with numbers below 0.
    """
    num_blocks = (spec.input_length + spec.output_length) // block_size
    names: list[int] = []
    if spec.hash_ids:
        if HASH_BLOCK_SIZE % block_size:
            raise InvalidParameterError(
                f"block_size must divide the trace's {HASH_BLOCK_SIZE}, got {block_size}"
            )
        per_id = HASH_BLOCK_SIZE // block_size
        names = [hash_id * per_id + i for hash_id in spec.hash_ids for i in range(per_id)]
        del names[spec.input_length // block_size :]
    base = -((index + 1) << 32)
    return names + [base + i for i in range(len(names), num_blocks)]


class SimRequest(Request):
    """A request with the lengths of a trace's.

    One byte stands for a token, since its value does not matter.
    """

    __slots__ = ("first_token_time", "last_token_time", "longest_gaps", "names")

    def __init__(self, index: int, spec: TraceRequest, block_size: int) -> None:
        params = _sampling_params(spec.output_length)
        super().__init__(str(index), (0,), params, arrival_time=spec.arrival_time)
        self.num_prompt_tokens = spec.input_length
        self.prompt_token_ids = bytes(spec.input_length)  # type: ignore[assignment]
        self.all_token_ids = bytearray(spec.input_length)  # type: ignore[assignment]
        self.output_token_ids = bytearray()  # type: ignore[assignment]
        self.names: list[int] = block_names(index, spec, block_size)
        self.block_hashes = [*self.names]
        self.first_token_time = 0.0  # set with the first token
        self.last_token_time: float | None = None
        num_gaps = spec.output_length - 1
        # a heap: 99 of 100 gaps are at most its least one
        self.longest_gaps = [0.0] * (num_gaps // 100 + 1)

    def name_known_blocks(self, num_tokens: int, block_size: int) -> None:
        """A block that drafts fill has no name until they are accepted: only blocks of the first
        num_tokens have one.

        Called by a replica with drafts. Without drafts a block may have its name from the
        beginning.
        """
        self.block_hashes = [*self.names[: num_tokens // block_size]]
