"""AsyncEngine: a request is an async iterator of what is new, and leaving it in any way ends the
request.

Texts become token ids here and token ids become text, stop strings included; the engine itself runs
elsewhere (engine_process.py). Registration and submission are one act, without an await between
them, so that nothing can come between. All methods belong to one event loop. Source:
vllm/v1/engine/async_llm.py.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from mini_vllm.config import EngineConfig
from mini_vllm.errors import EngineDeadError, InvalidParameterError, MiniVllmError
from mini_vllm.frontend.front import Front
from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.frontend.prompts import Prompt
from mini_vllm.params import SamplingParams
from mini_vllm.serving.admission.tenants import Admission
from mini_vllm.serving.engine_client import EngineClient, ProcessClient, ThreadClient
from mini_vllm.serving.messages import Add, Died, Event, Finish, Ready, StepDone
from mini_vllm.serving.metrics import ServerMetrics
from mini_vllm.spec_decode.scheduler import SpeculationStats

if TYPE_CHECKING:
    from mini_vllm.frontend.input_processor import InputProcessor


BEAT = 1.0  # seconds after which the engine is asked for a word
# choices that get their texts before other clients are served; vLLM: VLLM_V1_OUTPUT_PROC_CHUNK_SIZE
DELTAS_AT_ONCE = 32


class QueueTimeoutError(MiniVllmError, RuntimeError):
    """A request has waited too long for its first token."""


class RequestTimeoutError(MiniVllmError, RuntimeError):
    """A request has taken longer than the server allows."""


class Stream:
    """The outputs of one request that its reader has not fetched, as one: a slow reader holds its
    own text alone.
    """

    def __init__(self) -> None:
        self._outputs: list[RequestOutput] = []
        self._has_news = asyncio.Event()
        self._error: Exception | None = None

    def put(self, output: RequestOutput) -> None:
        self._outputs.append(output)
        self._has_news.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._has_news.set()

    async def get(self) -> RequestOutput:
        await self._has_news.wait()
        if not self._outputs:
            assert self._error is not None
            raise self._error
        outputs, self._outputs = self._outputs, []
        if self._error is None:
            self._has_news.clear()
        return RequestOutput.joined(outputs)


class AsyncEngine:
    """The front of an engine. Wait for start() before any request; close() ends what runs.

    make_client: ThreadClient runs the engine in a thread and not in a process. max_queue: choices
    that may wait for their first token. engine_timeout: seconds without a word of the engine, after
    which it counts as standing still. metrics_name: the model's name in the metrics.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        make_client: Callable[..., EngineClient] = ProcessClient,
        max_queue: int = 1024,
        engine_timeout: float = 60,
        metrics_name: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.engine_timeout = engine_timeout
        self.clock = clock
        self._silence = 0.0  # seconds since the engine spoke, in which this front ran
        self.is_dead = False
        self.why_dead = ""
        drafts = (
            SpeculationStats([0] * (config.num_speculative_tokens + 1))
            if config.speculative
            else None
        )
        self.metrics = ServerMetrics(metrics_name or config.model, drafts)
        self.listeners: list[Callable[[StepDone, list[RequestOutput]], None]] = []
        self.last: StepDone | None = None  # how the engine stood when it spoke last
        self._make_client = make_client
        self._client: EngineClient | None = None
        self.admission = Admission(max_queue, clock)
        self._streams: dict[str, Stream] = {}

    async def start(self) -> None:
        """Load the model. Raises EngineDeadError with the reason if it cannot be loaded."""
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Ready] = self._loop.create_future()
        self._steps: asyncio.Queue[StepDone | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())
        self._client = self._make_client(
            self.config,
            self._in_loop(self._on_event),
            self._in_loop(partial(self._steps.put_nowait, None)),
        )
        if isinstance(self._client, ThreadClient):
            # two threads must not import the same library at once
            await asyncio.wait([self._ready])
        reading = asyncio.to_thread(make_input_processor, self.config)
        ready, processor = await asyncio.gather(self._ready, reading, return_exceptions=True)
        if isinstance(ready, BaseException):
            raise ready
        if isinstance(processor, BaseException):
            raise EngineDeadError(f"the tokenizer cannot be loaded: {processor}") from processor
        self.facts = ready.facts
        self.input_processor = processor
        processor.limits = type(processor.limits)(
            ready.vocab_size, ready.max_model_len, ready.num_slots
        )
        self._front = Front(processor, self.config.seed, self.clock)
        self.output_processor = self._front.output_processor
        self.metrics.configured(
            block_size=self.config.block_size,
            num_gpu_blocks=ready.num_slots // self.config.block_size,
            enable_prefix_caching=self.config.enable_prefix_caching,
        )
        self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while not self.is_dead:
            last = self.clock()
            await asyncio.sleep(BEAT)
            self.beat(self.clock() - last)

    def beat(self, seconds: float) -> None:
        """So many seconds have passed.

        An engine that has spoken meanwhile is asked for a word. One that stands still ends every
        stream with an error; it serves again when it speaks. A front that stood still itself has
        not listened, so at most two beats count.
        """
        if not self._silence:
            self._send(Finish([], "abort"))  # to which it says how it stands
        self._silence += min(seconds, 2 * BEAT)
        self.metrics.silence.set(self._silence)
        if self.why_unable is not None:
            for stream in self._streams.values():
                stream.fail(EngineDeadError(self.why_unable))

    @property
    def why_unable(self) -> str | None:
        """Why the engine takes no request; None if it takes them."""
        if self.is_dead:
            return f"the engine has stopped: {self.why_dead}"
        if self._silence > self.engine_timeout:
            return f"the engine stands still: it has said nothing for {self._silence:.0f} seconds"
        return None

    async def close(self, timeout: float = 10) -> None:
        """Stop the engine; requests in flight get an error."""
        self.admission.close()
        if self._client:
            await asyncio.to_thread(self._client.close, timeout)

    # --- requests ---------------------------------------------------------------------------------

    async def generate(
        self, request_id: str, prompt: Prompt, params: SamplingParams, **options: Any
    ) -> AsyncGenerator[RequestOutput]:
        """What is new of a request, as params.output_kind says, until it is finished. options:
        priority, cache_salt.

        Leaving the iterator aborts the request: use contextlib.aclosing. Raises a
        RequestRefusedError or QueueFullError before the first output, RequestFailedError or
        EngineDeadError when it or the engine fails.
        """
        stream, reason = Stream(), ""
        self._submit(request_id, prompt, params, stream, options)
        try:
            while not reason:
                output = await stream.get()
                if output.finished:
                    reason = output.outputs[-1].finish_reason or "abort"
                yield output
        finally:
            self.abort(request_id)
            self.metrics.ended(request_id, reason or "abort")

    def _submit(
        self,
        request_id: str,
        prompt: Prompt,
        params: SamplingParams,
        stream: Stream,
        options: dict[str, Any],
    ) -> None:
        """Check, register and send a request, or raise and change nothing."""
        if self.why_unable is not None:
            raise EngineDeadError(self.why_unable)
        client = options.get("client", "")
        self.check_queue(params.n, client)
        admit = partial(self.admission.admit, request_id, client)
        requests = self._front.add_request(request_id, prompt, params, stream.put, options, admit)
        self._streams[request_id] = stream
        try:
            self._send(Add.of(requests))
        except InvalidParameterError:
            self.abort(request_id)
            raise
        self.metrics.started(requests, request_id)

    @property
    def num_unfinished(self) -> int:
        """How many requests wait or run."""
        return len(self._streams)

    def check_queue(self, num_choices: int, client: str | None) -> None:
        """Raises QueueFullError unless so many more of the client may wait."""
        self.admission.check_queue(client or "", num_choices)

    def abort(self, request_id: str) -> None:
        """End a request at once, in whatever state it is. One that has ended is ignored."""
        self._streams.pop(request_id, None)
        self.admission.release(request_id)
        self._abort(request_id)

    def _abort(self, request_id: str) -> None:
        if child_ids := self.output_processor.abort(request_id):
            self._send(Finish(child_ids, "abort"))

    def _send(self, command: Add | Finish) -> None:
        if self._client and not self.is_dead:
            self._client.send(command)

    def abort_all(self) -> None:
        """End every request in flight; their readers get a last output with finish reason
        "abort".
        """
        for request_id in list(self._streams):
            self._abort(request_id)

    # --- events -----------------------------------------------------------------------------------

    def _in_loop(self, function: Callable[..., None]) -> Callable[..., None]:
        """The function, to be called from any thread."""

        def call(*args: Any) -> None:
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(function, *args)

        return call

    def _on_event(self, event: Event) -> None:
        if self._client and self._client.has_heard_all:
            self._silence = 0.0
        if isinstance(event, Ready):
            if not self._ready.done():  # nobody waits any more
                self._ready.set_result(event)
        elif isinstance(event, Died):
            self.why_dead = event.error
            self._steps.put_nowait(None)  # its process may take a while to end
        else:
            self._steps.put_nowait(event)

    async def _read(self) -> None:
        """Take in what the engine says, to its last word."""
        try:
            while (done := await self._steps.get()) is not None:
                if done != self.last:  # a word that was asked for says nothing new
                    await self._take_in(done)
        finally:
            self._end()

    async def _take_in(self, done: StepDone) -> None:
        """Make text of what a step brought, and give each stream its own."""
        self.last = done
        self.metrics.stepped(done)
        outputs: list[RequestOutput] = []
        for start in range(0, len(done.deltas), DELTAS_AT_ONCE):
            deltas = done.deltas[start : start + DELTAS_AT_ONCE]
            for delta in deltas:
                request_id = self.output_processor.parent_of(delta.request_id)
                self.metrics.took(request_id, delta)
                if request_id in self.admission.waiting:
                    assert delta.time is not None, delta
                    self.admission.has_token(request_id, delta.time)
            new, stopped = self.output_processor.process(deltas)
            outputs += new
            if stopped:
                self._send(Finish(stopped, "stop"))
            await asyncio.sleep(0)
        for listener in self.listeners:
            listener(done, outputs)

    def _end(self) -> None:
        """No more comes: what waits gets an error."""
        self.is_dead = True
        self.why_dead = self.why_dead or "its process has ended"
        error = EngineDeadError(self.why_unable)
        if not self._ready.done():
            self._ready.set_exception(error)
        for stream in self._streams.values():
            stream.fail(error)


def make_input_processor(config: EngineConfig) -> "InputProcessor":
    """One that does not know the model's limits yet.

    Its import takes seconds, in which the engine loads the model.
    """
    from mini_vllm.frontend.input_processor import InputProcessor, ModelLimits

    processor = InputProcessor(config, ModelLimits(0, 0, 0))
    _ = processor.assistant_form  # a form of calls that no parser reads is told now
    return processor
