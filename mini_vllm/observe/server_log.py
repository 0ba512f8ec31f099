"""What the log tells of a running server: a line for each answer, and one of its throughput every
ten seconds while it is busy.

Source: LoggingStatLogger in vllm/v1/metrics/loggers.py, whose words it has.
"""

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("mini_vllm.serving")


class AccessLine:
    """The line of one request. scope: of ASGI; clock: in seconds."""

    def __init__(self, scope: Any, clock: Callable[[], float]) -> None:
        self._scope, self._clock, self._start = scope, clock, clock()
        self.status: int | None = None  # of a client that has left before it was answered

    @property
    def seconds(self) -> float:
        """Since the request came."""
        return self._clock() - self._start

    def noting(self, send: Any) -> Any:
        """Sends the same, and notes the status."""

        async def send_noted(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
            await send(message)

        return send_noted

    def write(self) -> None:
        """The request is over.

        The path stands there as it was sent, so it has no character that a terminal obeys; what is
        behind a question mark is left out.
        """
        scope = self._scope
        client = "{}:{}".format(*scope["client"] or ("-", "-"))
        path = scope["raw_path"][:200].decode("ascii", "replace")
        asked = f'"{scope["method"]} {path} HTTP/{scope["http_version"]}"'
        logger.info(
            "%s - %s %s %.3f s %s",
            client,
            asked,
            self.status or "-",
            self.seconds,
            scope["request_id"],
        )


class ThroughputLog:
    """Counts the tokens of an engine's steps, between two lines. engine: an AsyncEngine."""

    INTERVAL = 10.0  # seconds

    def __init__(self, engine: Any) -> None:
        self._clock = engine.clock
        self._last: Any = None  # StepDone
        self._begin()
        engine.listeners.append(self._take)

    def _begin(self) -> None:
        self._since = self._clock()
        self._num_prompt = self._num_generated = self._queries = self._hits = 0

    def _take(self, done: Any, outputs: object) -> None:
        self._last = done
        self._num_generated += sum(len(delta.tokens) for delta in done.deltas)
        if done.plan is not None and done.stats is not None:
            self._num_prompt += done.plan.num_tokens["prefill"]
            self._queries += done.stats.prefix_cache_queries
            self._hits += done.stats.prefix_cache_hits

    def write(self) -> None:
        """Write the line, if there was work since the last one."""
        seconds, last = max(self._clock() - self._since, 1e-9), self._last
        if last and (last.num_running or last.num_waiting or self._num_prompt):
            logger.info(
                "Avg prompt throughput: %.1f tokens/s, Avg generation throughput: %.1f tokens/s, "
                "Running: %d reqs, Waiting: %d reqs, KV cache usage: %.1f%%, "
                "Prefix cache hit rate: %.1f%%",
                self._num_prompt / seconds,
                self._num_generated / seconds,
                last.num_running,
                last.num_waiting,
                100 * last.kv_cache_usage,
                100 * self._hits / max(self._queries, 1),
            )
        self._begin()
