"""What a learner sees of the running engine at "/": one page, and the engine's steps as server-sent
events.

Each reader has a buffer, which the front of the engine fills and the reader's connection empties.
Equal steps that follow each other are one entry of the buffer. A full buffer drops its oldest entry
and counts the steps in it, so a reader that does not read holds bounded memory. While no reader
listens, no buffer exists and nothing is computed.
"""

import asyncio
import base64
import hashlib
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.observe.step_plan import StepPlan
from mini_vllm.serving.async_engine import AsyncEngine
from mini_vllm.serving.messages import StepDone
from mini_vllm.serving.openai.answers import event

PAGE = Path(__file__).with_name("page.html")
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src data:"
)
MAX_ENTRIES = 64  # that a reader may be behind
PAUSE = 0.05  # seconds between two events
PATIENCE = 0.5  # seconds without news, after which a stream looks whether it is over


async def page(request: HttpRequest) -> Response:
    """The page.

    Its policy has the hashes of its style and its script, so the browser runs no other ones.
    """
    text = PAGE.read_text(encoding="utf-8")
    allowed = "".join(f"; {tag}-src {hash_of(tag, text)}" for tag in ("script", "style"))
    headers = {
        "Content-Security-Policy": f"{POLICY}; connect-src 'self'; require-trusted-types-for "
        f"'script'{allowed}",
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(text, headers=headers, media_type="text/html")


def hash_of(tag: str, text: str) -> str:
    """The only element of this name, as a source of a content security policy."""
    (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


class StepBuffer:
    """The steps that one reader has not seen yet, and how the engine stands."""

    def __init__(self, last: StepDone | None) -> None:
        self.has_news = asyncio.Event()
        self._last = last or StepDone([], None, None, 0, 0, 0.0)
        # the last of some equal steps, and how many they are
        self._entries: deque[tuple[StepPlan, int]] = deque()
        self._num_dropped = 0

    def put(self, done: StepDone, outputs: list[RequestOutput]) -> None:
        """A listener of AsyncEngine."""
        self._last = done
        self.has_news.set()
        if (plan := done.plan) is None:
            return
        num_equal = 1
        if self._entries and self._entries[-1][0].participants == plan.participants:
            num_equal += self._entries.pop()[1]
        elif len(self._entries) == MAX_ENTRIES:
            self._num_dropped += self._entries.popleft()[1]
        self._entries.append((plan, num_equal))

    def take(self) -> dict[str, Any]:
        """All that is new, as an event tells it. It is empty then."""
        entries, self._entries = self._entries, deque()
        num_dropped, self._num_dropped = self._num_dropped, 0
        self.has_news.clear()
        return {
            "steps": [plan.as_json() | {"count": num_equal} for plan, num_equal in entries],
            "dropped": num_dropped,
            "running": self._last.num_running,
            "waiting": self._last.num_waiting,
            "kv_cache_usage": self._last.kv_cache_usage,
        }


async def steps(engine: AsyncEngine, is_over: Callable[[], bool]) -> AsyncGenerator[bytes]:
    """How the engine stands, and then its steps as they come: until it is over, or until the reader
    leaves.
    """
    buffer = StepBuffer(engine.last)
    num_blocks = engine.input_processor.limits.num_slots // engine.config.block_size
    engine.listeners.append(buffer.put)
    try:
        yield event(buffer.take() | {"num_blocks": num_blocks})
        while not is_over():
            try:
                async with asyncio.timeout(PATIENCE):
                    await buffer.has_news.wait()
            except TimeoutError:
                continue
            yield event(buffer.take() | {"num_blocks": num_blocks})
            await asyncio.sleep(PAUSE)
    finally:
        engine.listeners.remove(buffer.put)
