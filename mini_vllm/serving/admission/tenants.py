"""What the requests of each tenant may take of the front: seconds of the processor, and memory."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from mini_vllm.errors import MiniVllmError
from mini_vllm.request import Request
from mini_vllm.structured.sandbox.fair_threads import FairThreads

NUM_READERS = 8  # threads, of which a tenant has two at a time
MAX_SECONDS_A_MINUTE = 30.0  # of the processor, in which a tenant's requests are read
MAX_HELD_LOGPROBS = 1 << 20  # of a tenant's requests in flight

T = TypeVar("T")


class QueueFullError(MiniVllmError, RuntimeError):
    """So many requests wait already that this one is refused. retry_after: seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Admission:
    """Belongs to one event loop. max_queue: requests of a tenant that may wait to be read."""

    def __init__(self, max_queue: int) -> None:
        self._max_queue = max_queue
        self._readers = FairThreads(NUM_READERS, MAX_SECONDS_A_MINUTE)
        # by request: its tenant, and the logprobs that it may hold until its reader has them
        self._logprobs: dict[str, tuple[str, int]] = {}

    async def read(self, tenant: str, function: Callable[[], T]) -> T:
        """What a function makes of what a client of a tenant has sent, in a thread.

        The tenants take turns, each has so many seconds of the processor in a minute, and no work
        is begun for a client that has left. Raises QueueFullError if too many of the tenant wait.
        """
        num_waiting = self._readers.num_waiting(tenant)
        if num_waiting >= self._max_queue:
            raise QueueFullError(
                f"{num_waiting} requests wait to be read: at most {self._max_queue} may wait", 1
            )
        found: T = await asyncio.wrap_future(self._readers.submit(tenant, function))
        return found

    def hold_logprobs(self, request_id: str, tenant: str, requests: list[Request]) -> None:
        """Count the logprobs of a request's choices, until release().

        Raises QueueFullError if the requests of a tenant may hold too many already.
        """
        first, params = requests[0], requests[0].sampling_params
        parts = (
            (params.logprobs, params.max_tokens),
            (params.prompt_logprobs, first.num_prompt_tokens),
        )
        new = sum(
            len(requests) * num_tokens * (num + 1) for num, num_tokens in parts if num is not None
        )
        if not new:
            return
        held = sum(num for owner, num in self._logprobs.values() if owner == tenant)
        if held and held + new > MAX_HELD_LOGPROBS:
            raise QueueFullError(
                f"requests in flight may hold {held:,} logprobs and {new:,} more do not fit: at "
                f"most {MAX_HELD_LOGPROBS:,} may be held",
                1,
            )
        self._logprobs[request_id] = tenant, new

    def release(self, request_id: str) -> None:
        """A request is over."""
        self._logprobs.pop(request_id, None)

    @property
    def num_logprobs(self) -> int:
        """How many the requests in flight may hold."""
        return sum(num for _, num in self._logprobs.values())

    def close(self) -> None:
        """End the threads."""
        self._readers.close()
