"""ZmqPublisher: KV events as vLLM publishes them, on a PUB socket, with a ROUTER socket on which a
subscriber asks again for what it has missed.

A message has three frames: the topic, the number of the batch in 8 bytes, and msgpack of [time,
events, rank], where an event is a map with its type. Source: ZmqEventPublisher and KVEventBatch in
vllm/distributed/kv_events.py, KVEventsConfig in vllm/config/kv_events.py.
"""

import logging
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Full, Queue
from threading import Thread
from typing import Any

from mini_vllm.engine.outside.events import AllBlocksCleared, BlockStored, KVEvent
from mini_vllm.errors import (
    InvalidParameterError,
    Params,
    Rule,
    how_to_install,
    integer,
    is_writable,
    one_of,
    shown,
)

MEDIUM = "GPU"  # vLLM's word for the device, whichever it is
END = (-1).to_bytes(8, "big", signed=True)  # of a replay
POLL_MS = 100

logger = logging.getLogger("mini_vllm")

TEXT = Rule(
    lambda value: isinstance(value, str) and is_writable(value), "a text that UTF-8 can write"
)
ENDPOINT = Rule(
    lambda value: TEXT.holds(value) and value.startswith(("tcp://", "ipc://")),
    "tcp://ADDRESS:PORT or ipc://PATH",
)
RULES: Mapping[str, Rule] = {
    "enable_kv_cache_events": Rule(lambda value: value is True, "true"),
    "publisher": one_of(("zmq",)),
    "endpoint": ENDPOINT,
    "replay_endpoint": ENDPOINT.or_none(),
    "buffer_steps": integer(1, 1 << 20),
    "hwm": integer(1, 1 << 30),
    "max_queue_size": integer(1, 1 << 30),
    "topic": TEXT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KVEventsConfig(Params):
    """The options of vLLM's --kv-events-config. Events tell the tokens of prompts to each
    subscriber, so the endpoint is this machine's own unless it is given.

    Raises InvalidParameterError, or UnknownParameterError.
    """

    enable_kv_cache_events: bool = True
    publisher: str = "zmq"
    endpoint: str = "tcp://127.0.0.1:5557"
    replay_endpoint: str | None = None
    buffer_steps: int = 10_000
    """Batches that can be asked for again."""
    hwm: int = 100_000
    """Batches that wait for a subscriber; those beyond them are lost."""
    max_queue_size: int = 100_000
    """Batches that wait to be published; those beyond them are lost, which their numbers show."""
    topic: str = ""

    def __post_init__(self) -> None:
        self.normalise()
        self.check(RULES)


class ZmqPublisher:
    """A thread of its own sends, so no step waits for a subscriber.

    Raises InvalidParameterError if an endpoint cannot be opened, or pyzmq is not installed.
    """

    def __init__(self, config: KVEventsConfig) -> None:
        try:
            import zmq
            from msgspec import msgpack
        except ImportError as error:
            raise InvalidParameterError(
                f"kv_events_config needs pyzmq and msgspec. {how_to_install('events')}"
            ) from error
        self.config = config
        self._encode = msgpack.Encoder().encode
        self._topic = config.topic.encode()
        self._queue = Queue[tuple[int, float, list[KVEvent]]](config.max_queue_size)
        self._number = 0
        self._sent = deque[tuple[bytes, bytes]](maxlen=config.buffer_steps)
        self._is_open = True
        self._context: Any = zmq.Context()  # which can end, and waits until its ports are free
        self._pub = self._context.socket(zmq.PUB)
        self._pub.set_hwm(config.hwm)
        self._bind(self._pub, config.endpoint, zmq.ZMQError)
        self._replay: Any = None
        if config.replay_endpoint is not None:
            self._replay = self._context.socket(zmq.ROUTER)
            self._replay.set_hwm(2 * (config.buffer_steps + 1))
            self._bind(self._replay, config.replay_endpoint, zmq.ZMQError)
        self._thread = Thread(target=self._run, name="kv-events", daemon=True)
        self._thread.start()

    def _bind(self, socket: Any, endpoint: str, error_cls: type[Exception]) -> None:
        socket.linger = 0
        try:
            socket.bind(endpoint)
        except error_cls as error:
            self._context.destroy(0)
            raise InvalidParameterError(
                f"endpoint {shown(endpoint)} of kv_events_config cannot be opened: {error}"
            ) from error

    def publish(self, events: list[KVEvent]) -> None:
        """Hand a batch over. Never waits."""
        number, self._number = self._number, self._number + 1
        try:
            self._queue.put_nowait((number, time.time(), events))
        except Full:
            logger.warning("KV events of a step are lost: %d wait", self._queue.qsize())

    def close(self) -> None:
        """Publish what waits, and free the endpoints."""
        self._is_open = False
        self._thread.join()

    def _run(self) -> None:
        while self._is_open or not self._queue.empty():
            if self._replay is not None and self._replay.poll(0):
                self._repeat()
            try:
                number, when, events = self._queue.get(timeout=POLL_MS / 1000)
            except Exception:  # none is there
                continue
            payload = self._encode([when, [as_map(event) for event in events], 0])
            sequence = number.to_bytes(8, "big")
            self._sent.append((sequence, payload))
            self._pub.send_multipart((self._topic, sequence, payload))
        self._context.destroy(0)

    def _repeat(self) -> None:
        """Send again what a subscriber has missed, from the number that it says."""
        frames = self._replay.recv_multipart()
        if len(frames) != 3 or len(frames[2]) != 8:
            return
        subscriber, _, start = frames
        for sequence, payload in self._sent:
            if sequence >= start:
                self._replay.send_multipart((subscriber, b"", self._topic, sequence, payload))
        self._replay.send_multipart((subscriber, b"", b"", END, b""))


def as_map(event: KVEvent) -> dict[str, Any]:
    """An event as msgspec writes vLLM's: its type, and its fields without defaults."""
    found: dict[str, Any] = {"type": type(event).__name__, **event._asdict()}
    if isinstance(event, AllBlocksCleared):
        return found
    found |= {"block_hashes": [*map(as_number, event.block_hashes)], "medium": MEDIUM}
    if isinstance(event, BlockStored):
        parent = event.parent_block_hash
        found["parent_block_hash"] = None if parent is None else as_number(parent)
        found |= {"lora_id": None, "lora_name": None}
    return found


def as_number(digest: bytes) -> int:
    """The last 64 bits. vLLM: maybe_convert_block_hash (vllm/v1/core/kv_cache_utils.py)."""
    return int.from_bytes(digest[-8:], "big")
