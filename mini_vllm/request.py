"""A request: two counters racing. num_computed_tokens catches up with num_tokens.

There is no prefill phase and no decode phase, only how far behind a request is. A prompt of 100
tokens starts 100 behind; when it has caught up, one token is sampled, and it is 1 behind again.
Preemption sets the first counter back to 0, a prefix hit moves it ahead. Source:
vllm/v1/request.py.
"""

import math
from collections.abc import Collection, Hashable, Sequence
from enum import Enum

from mini_vllm.errors import EmptyPromptError, InvalidParameterError, is_int, is_number, shown
from mini_vllm.params import SamplingParams


class RequestStatus(Enum):
    """Where a request is in its life; the value of a finished one is its finish reason."""

    WAITING = "waiting"
    RUNNING = "running"
    PREEMPTED = "preempted"
    FINISHED_STOPPED = "stop"
    FINISHED_LENGTH = "length"
    FINISHED_ABORTED = "abort"
    FINISHED_ERROR = "error"


UNFINISHED = frozenset({RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED})
FINISH_REASONS = tuple(status.value for status in RequestStatus if status not in UNFINISHED)


class Request:
    """One prompt on its way to one output.

    Owned by the scheduler from add_request until it is finished.

    What a step changes: the tokens, num_computed_tokens, status and two counts. Always
    0 <= num_computed_tokens <= num_tokens = num_prompt_tokens + len(output_token_ids).

    Raises EmptyPromptError for a prompt without tokens, InvalidParameterError for an option of the
    wrong kind: found later, in the scheduler, it would stop all requests.
    """

    __slots__ = (
        "all_token_ids",
        "arrival_time",
        "block_hashes",
        "cache_salt",
        "choice_index",
        "client",
        "end_len",
        "end_status",
        "eos_token_ids",
        "max_model_len",
        "max_tokens",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_preemptions",
        "num_prefill_tokens",
        "num_prompt_tokens",
        "output_token_ids",
        "priority",
        "prompt_token_ids",
        "request_id",
        "sampling_params",
        "status",
        "stop_token_ids",
    )

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        sampling_params: SamplingParams,
        *,
        eos_token_ids: Collection[int] = (),
        priority: int = 0,
        arrival_time: float = 0.0,
        cache_salt: str | None = None,
        max_model_len: int | None = None,
        choice_index: int = 0,
        client: str = "",
    ) -> None:
        if not len(prompt_token_ids):
            raise EmptyPromptError(
                f"request {shown(request_id)}: the prompt has 0 tokens, at least 1 is needed"
            )
        for name, value, holds, limit in (
            ("request_id", request_id, isinstance(request_id, str), "a string"),
            ("priority", priority, is_int(priority, -math.inf), "an integer"),
            ("arrival_time", arrival_time, is_number(arrival_time, -1e300, 1e300), "a number"),
            (
                "cache_salt",
                cache_salt,
                cache_salt is None or isinstance(cache_salt, str),
                "None or a string",
            ),
            (
                "max_model_len",
                max_model_len,
                max_model_len is None or is_int(max_model_len, 1),
                "None or at least 1",
            ),
            ("choice_index", choice_index, is_int(choice_index, 0), "an integer of at least 0"),
        ):
            if not holds:
                raise InvalidParameterError(
                    f"request {shown(request_id)}: {name} must be {limit}, got {shown(value)}"
                )
        self.request_id = request_id
        self.prompt_token_ids = list(prompt_token_ids)
        self.sampling_params = sampling_params
        self.eos_token_ids = frozenset(eos_token_ids)
        # What ends the request, at hand: maybe_finish() runs for every token of thousands of
        # requests, and a frozenset that all requests share stays in the processor's cache.
        self.max_tokens = sampling_params.max_tokens
        # the number of output tokens with which it ends, whatever they are
        self.end_len = self.max_tokens
        self.end_status = RequestStatus.FINISHED_LENGTH
        self.stop_token_ids = frozenset() if sampling_params.ignore_eos else self.eos_token_ids
        if sampling_params.stop_token_ids:
            self.stop_token_ids = self.stop_token_ids.union(sampling_params.stop_token_ids)
        self.priority = priority  # lower is sooner
        self.arrival_time = arrival_time
        self.cache_salt = cache_salt  # requests with different salts never share blocks
        self.max_model_len = max_model_len  # the scheduler lowers it to what fits
        # which of the choices of its prompt it is; its noise depends on it
        self.choice_index = choice_index
        self.client = client  # whose turn it takes where work is shared
        self.status = RequestStatus.WAITING
        # A policy that serves prefills first also says how many tokens a request had when it was
        # admitted last.
        self.num_prefill_tokens = self.num_prompt_tokens = len(self.prompt_token_ids)
        self.all_token_ids = list(prompt_token_ids)
        self.output_token_ids: list[int] = []
        # the first [0, num_computed_tokens) have their K and V in the cache
        self.num_computed_tokens = 0
        self.num_cached_tokens = 0  # the prefix hit at first admission
        self.num_preemptions = 0
        # of the full blocks; the KV cache manager extends it
        self.block_hashes: list[Hashable] = []

    @property
    def num_tokens(self) -> int:
        return len(self.all_token_ids)

    @property
    def is_finished(self) -> bool:
        return self.status not in UNFINISHED

    @property
    def finish_reason(self) -> str | None:
        """ "stop", "length", "abort", "error", or None while the request lives."""
        return self.status.value if self.is_finished else None

    def at_most(self, num_tokens: int) -> int:
        """So many tokens, or max_model_len if that is less."""
        return num_tokens if self.max_model_len is None else min(num_tokens, self.max_model_len)

    def append_output_token(self, token_id: int) -> None:
        self.output_token_ids.append(token_id)
        self.all_token_ids.append(token_id)

    def end_after(self, num_output_tokens: int, status: RequestStatus) -> None:
        """Let the request end with so many output tokens, and with this status, whatever they
        are.
        """
        self.end_len, self.end_status = num_output_tokens, status

    def maybe_finish(self) -> bool:
        """Look at the last output token and finish if it is the last one: stop wins over length.

        Source: check_stop in vllm/v1/core/sched/utils.py.
        """
        outputs = self.output_token_ids
        if not outputs:
            return False
        if len(outputs) >= self.end_len and self.end_status is not RequestStatus.FINISHED_LENGTH:
            self.status = self.end_status
        elif outputs[-1] in self.stop_token_ids:
            self.status = RequestStatus.FINISHED_STOPPED
        elif len(outputs) >= self.end_len or (
            self.max_model_len is not None and len(self.all_token_ids) >= self.max_model_len
        ):
            self.status = RequestStatus.FINISHED_LENGTH
        else:
            return False
        return True


def until_its_end(request: Request, token_ids: Sequence[int]) -> Sequence[int]:
    """Those of the tokens that an unfinished request takes: none behind the one that ends it."""
    limit = request.at_most(request.num_prompt_tokens + request.end_len)
    taken = token_ids[: limit - request.num_tokens]
    for i, token_id in enumerate(taken, 1):
        if token_id in request.stop_token_ids:
            return taken[:i]
    return taken
