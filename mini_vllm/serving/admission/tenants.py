"""What the requests of each tenant may take of the front: seconds of the processor, and memory."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from mini_vllm.errors import MiniVllmError
from mini_vllm.request import Request
from mini_vllm.structured.sandbox.fair_threads import FairThreads

NUM_READERS = 8  # threads, of which a tenant has two at a time
MAX_SECONDS_A_MINUTE = 30.0  # of the processor, in which a tenant's requests are read
MAX_HELD_LOGPROBS = 1 << 20  # of a tenant's requests in flight
MAX_BODY_BYTES = 64 << 20  # of a tenant's requests that wait to be read
MAX_ALL_BODY_BYTES = 128 << 20

T = TypeVar("T")


class QueueFullError(MiniVllmError, RuntimeError):
    """So many requests wait already that this one is refused. retry_after: seconds."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Admission:
    """Belongs to one event loop.

    max_queue: how many requests of a tenant may wait to be read, and how many choices of its
    requests for their first token.
    """

    def __init__(self, max_queue: int, clock: Callable[[], float]) -> None:
        self._max_queue, self._clock = max_queue, clock
        # by request that has no token yet: its tenant, and its choices
        self.waiting: dict[str, tuple[str, int]] = {}
        # when the last choices got their first tokens
        self._first_tokens: deque[float] = deque(maxlen=64)
        self._num_body_bytes: Counter[str] = Counter()  # by tenant
        self._readers = FairThreads(NUM_READERS, MAX_SECONDS_A_MINUTE)
        # by request: its tenant, and the logprobs that it may hold until its reader has them
        self._logprobs: dict[str, tuple[str, int]] = {}

    async def read(self, tenant: str, function: Callable[[], T], num_bytes: int = 0) -> T:
        """What a function makes of what a client of a tenant has sent, in a thread.

        The tenants take turns, each has so many seconds of the processor in a minute, and no work
        is begun for a client that has left. num_bytes: of the body that it holds. Raises
        QueueFullError if too many of the tenant wait, or too much.
        """
        num_waiting = self._readers.num_waiting(tenant)
        if num_waiting >= self._max_queue:
            raise QueueFullError(
                f"{num_waiting} requests wait to be read: at most {self._max_queue} may wait"
            )
        with self.holding(tenant, num_bytes):
            return await asyncio.wrap_future(self._readers.submit(tenant, function))

    @contextmanager
    def holding(self, tenant: str, num_bytes: int) -> Iterator[None]:
        """Count bytes of what a client of a tenant has sent. Raises QueueFullError for too many."""
        held = self._num_body_bytes
        if held[tenant] + num_bytes > MAX_BODY_BYTES or held.total() > MAX_ALL_BODY_BYTES:
            raise QueueFullError(
                f"bodies of {held[tenant]:,} bytes wait to be read and {num_bytes:,} more do not "
                f"fit: at most {MAX_BODY_BYTES:,} may wait, {MAX_ALL_BODY_BYTES:,} of all clients"
            )
        held[tenant] += num_bytes
        try:
            yield
        finally:
            held -= Counter({tenant: num_bytes})

    # --- requests ---------------------------------------------------------------------------------

    def check_queue(self, tenant: str, num_choices: int) -> None:
        """Raises QueueFullError unless so many more of the tenant may wait."""
        num_waiting = sum(num for owner, num in self.waiting.values() if owner == tenant)
        # all clients together have sixteen queues
        if max(num_waiting, len(self.waiting) // 16) + num_choices > self._max_queue:
            raise QueueFullError(
                f"{num_waiting} choices wait for their first token and {num_choices} more do not "
                f"fit: at most {self._max_queue} of a client may wait, and 16 times as many of all",
                self._seconds_to_wait(num_waiting),
            )

    def _seconds_to_wait(self, num_waiting: int) -> int:
        """How long the queue takes at the rate of late."""
        if len(self._first_tokens) < 2:
            return 1
        seconds = max(self._clock() - self._first_tokens[0], 1e-3)
        return max(1, min(60, round(num_waiting * seconds / len(self._first_tokens))))

    def has_token(self, request_id: str, time: float) -> None:
        """A request that waited has its first token since then."""
        _, num_choices = self.waiting.pop(request_id)
        self._first_tokens.extend([time] * num_choices)

    def admit(self, request_id: str, tenant: str, requests: list[Request]) -> None:
        """Count the choices of a request, and their logprobs until release().

        Raises QueueFullError if the requests of a tenant may hold too many logprobs already.
        """
        first = requests[0]
        params = first.sampling_params
        parts = (
            (params.logprobs, params.max_tokens),
            (params.prompt_logprobs, first.num_prompt_tokens),
        )
        num_each = sum(num_tokens * (num + 1) for num, num_tokens in parts if num is not None)
        new = len(requests) * num_each
        held = sum(num for owner, num in self._logprobs.values() if owner == tenant)
        if held + new > MAX_HELD_LOGPROBS:
            raise QueueFullError(
                f"requests in flight may hold {held:,} logprobs and {new:,} more do not fit: at "
                f"most {MAX_HELD_LOGPROBS:,} may be held"
            )
        self._logprobs[request_id] = tenant, new
        self.waiting[request_id] = tenant, len(requests)

    def release(self, request_id: str) -> None:
        """A request is over."""
        self._logprobs.pop(request_id, None)
        self.waiting.pop(request_id, None)

    def close(self) -> None:
        """End the threads."""
        self._readers.close()
