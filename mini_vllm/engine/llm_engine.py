"""LLMEngine: text on both sides of the engine core.

The input processor makes Requests of a prompt, and the output processor makes text of what the core brings back. Stop
strings are found here, and beams are steered here, so that the core knows none of them. Any scheduler and KV cache
manager with the contract's names plug in. Source: vllm/v1/engine/llm_engine.py.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial, wraps
from queue import SimpleQueue
from typing import Any, TypeVar, Unpack, cast

from mini_vllm.config import EngineConfig
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.core_factory import CoreFactory, EngineClasses
from mini_vllm.errors import DuplicateRequestError, EngineBusyError, MiniVllmError, shown
from mini_vllm.frontend.beam_search import BeamSearch
from mini_vllm.frontend.input_processor import InputProcessor, Message, ModelLimits
from mini_vllm.frontend.output_processor import OnOutput, OutputProcessor, RequestOutput
from mini_vllm.frontend.prompts import Prompt, check_request_id
from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.stats import SchedulerStats, StatsListener
from mini_vllm.params import SamplingParams
from mini_vllm.scheduler_interface import SchedulerInterface
from mini_vllm.step import TokenDelta

logger = logging.getLogger("mini_vllm")

Method = TypeVar("Method", bound=Callable[..., Any])
Result = TypeVar("Result")


def one_thread(method: Method) -> Method:
    """One thread at a time is inside these methods; a second one gets EngineBusyError.

    What breaks off in the middle, by an interrupt for instance, leaves a dead engine: half a change is no state.
    """

    @wraps(method)
    def guarded(engine: "LLMEngine", *args: Any, **kwargs: Any) -> Any:
        engine.refuse_other_threads(method.__name__)
        with engine.lock:
            try:
                return method(engine, *args, **kwargs)
            except (MiniVllmError, TypeError, ValueError):  # a refusal; the core knows whether it was more
                raise
            except BaseException:
                engine.core.is_dead = True
                raise

    return cast(Method, guarded)


class LLMEngine:
    """Owns the engine core, the tokenizer and the texts. step() serves every request in flight.

    One thread at a time may call it; another one may post(). An error of a step is raised at once, and so is an
    interrupt. The engine then refuses to go on until reset().

    scheduler_cls and kv_cache_manager_cls: classes with the contract of SchedulerInterface and KVCacheManager; None is
    ours. executor_cls: where steps run. core_cls: RecoveringCore goes on when a device has failed. Raises a
    CheckpointError when the model cannot be loaded, InvalidParameterError for a bad config.
    """

    def __init__(
        self, config: EngineConfig, *, clock: Callable[[], float] = time.monotonic, **classes: Unpack[EngineClasses]
    ) -> None:
        self.clock = clock
        self._factory = CoreFactory(config, **classes)
        self.config = self._factory.config
        self.kv_cache_plan = self._factory.kv_cache_plan
        self.executor = self._factory.executor
        self.vocab_size = self._factory.model_info.vocab_size
        self._posts: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self.lock = threading.RLock()  # held by the thread that is at work here
        core = self._factory.make()
        limits = ModelLimits(self.vocab_size, core.scheduler.max_model_len, core.scheduler.num_slots)
        self.input_processor = InputProcessor(config, limits)
        self._begin(core)

    def _begin(self, core: EngineCore, listeners: Sequence[StepListener] = ()) -> None:
        """Go on with a core that has no requests."""
        self._stats = StatsListener(core.scheduler)
        core.listeners = [self._stats, *listeners]
        self.output_processor = OutputProcessor(self.input_processor.text_reader)
        self.beam_searches: dict[str, BeamSearch] = {}  # of requests whose choices are beams, until it is done
        self._is_stepping = False
        self.core = core

    @one_thread
    def reset(self) -> None:
        """Drop all requests, whose callers hear nothing more, and begin again with an empty KV cache.

        The model stays. So do the listeners, which see another scheduler from now on.
        """
        self._begin(self._factory.make(), [listener for listener in self.listeners if listener is not self._stats])

    @property
    def tokenizer(self) -> Any | None:
        """The model's; None if the checkpoint has none."""
        return self.input_processor.tokenizer

    @property
    def scheduler(self) -> SchedulerInterface:
        return self.core.scheduler

    @property
    def listeners(self) -> list[StepListener]:
        """What watches every step: a trace, statistics."""
        return self.core.listeners

    @property
    def stats(self) -> SchedulerStats | None:
        """Of the last step."""
        return self._stats.last

    # --- requests come and go -------------------------------------------------------------------------------------

    @one_thread
    def add_request(
        self,
        request_id: str,
        prompt: Prompt,
        sampling_params: SamplingParams,
        *,
        on_output: OnOutput | None = None,
        **request_options: Any,
    ) -> None:
        """Queue a prompt (text or token ids). request_options: priority, arrival_time, cache_salt.

        on_output: gets every output of the request, also the one that says that it was aborted. It may add and abort
        requests, and must not step. What it raises is raised by step().

        n > 1 becomes n requests over the same prompt: the first computes it, the others find it in the prefix cache
        (vLLM V1's ParentRequest). Raises a RequestRefusedError; then nothing has changed.
        """
        options = {"arrival_time": self.clock(), **request_options}
        with self.input_processor.seeds_of_what_is_added():
            requests = self.input_processor.process(request_id, prompt, sampling_params, **options)
            child_ids = [request.request_id for request in requests]
            for name in (request_id, *child_ids):
                if self.output_processor.has_request(name):
                    raise DuplicateRequestError(f"request {shown(name)} is still in flight")
            self.core.add(requests)
            text = prompt if isinstance(prompt, str) else None
            self.output_processor.add_request(request_id, text, requests, on_output)

    def tokenize(self, prompt: Prompt) -> list[int]:
        """InputProcessor.tokenize."""
        return self.input_processor.tokenize(prompt)

    def apply_chat_template(self, messages: Sequence[Message], **template_options: Any) -> list[int]:
        """InputProcessor.apply_chat_template."""
        return self.input_processor.apply_chat_template(messages, **template_options)

    def default_sampling_params(self) -> SamplingParams:
        """InputProcessor.default_sampling_params."""
        return self.input_processor.default_sampling_params()

    @one_thread
    def abort(self, request_id: str) -> None:
        """Drop a request and all its choices; its blocks are free at once. Unknown ids are ignored."""
        check_request_id(request_id)
        if (search := self.beam_searches.pop(request_id, None)) is not None:
            search.is_done = True
        self.core.abort(self.output_processor.get_child_ids(request_id))
        self.output_processor.abort(request_id)

    def post(self, call: Callable[..., Result], *args: Any, **kwargs: Any) -> "Future[Result]":
        """Let the thread that steps make a call between two steps: post(engine.add_request, "a", prompt, params).

        Any thread may post. The future has what the call returns or raises. vLLM: EngineCoreProc.input_queue.
        """
        future: Future[Result] = Future()
        self._posts.put((partial(call, *args, **kwargs), future))
        return future

    def _make_posted_calls(self) -> None:
        for _ in range(self._posts.qsize()):
            call, future = self._posts.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except Exception as error:
                future.set_exception(error)

    def has_unfinished_requests(self) -> bool:
        """Whether step() has anything to compute, or a posted call to make."""
        return self.core.has_unfinished_requests() or not self._posts.empty()

    def refuse_other_threads(self, what: str) -> None:
        """Raises EngineBusyError if another thread is at work here. `what` is what the caller wants to do."""
        if not self.lock.acquire(blocking=False):
            raise EngineBusyError(
                f"{what}: another thread than {threading.current_thread().name!r} is at work in this engine; "
                "let one thread call it, or give each thread an engine of its own"
            )
        self.lock.release()

    def shutdown(self) -> None:
        """Give back what the executor holds, such as processes. Call it when no request is in flight."""
        self._factory.shutdown()

    # --- one step -------------------------------------------------------------------------------------------------

    @one_thread
    def step(self) -> list[RequestOutput]:
        """One iteration. Returns, with all their text so far, the requests that got a token or finished.

        What the scheduler, a manager or the model raises is raised; then reset() begins again. Raises
        SchedulerStalledError if the scheduler has work but schedules none.
        """
        if self._is_stepping:
            raise EngineBusyError("step: a listener or an on_output is called within a step, and must not step itself")
        self._is_stepping = True
        try:
            self._make_posted_calls()
            return self._take_in(self._compute())
        except Exception:
            self.core.is_dead = True
            raise
        finally:
            self._is_stepping = False

    def _compute(self) -> list[TokenDelta]:
        """One step of the core."""
        step = self.core.begin_step()
        try:
            result = step.future.result()
        except Exception as error:
            return self.core.fail_step(step, error)
        for search in self.beam_searches.values():
            if result.errors.keys().isdisjoint(search.request_ids):
                search.advance(result.tokens)
        return self.core.finish_step(step, result)

    def _take_in(self, deltas: Sequence[TokenDelta]) -> list[RequestOutput]:
        """Make text of what the core has brought, and end what a stop string or a beam search ends."""
        for delta in deltas:
            for search in self.beam_searches.values() if delta.error else ():
                if delta.request_id in search.request_ids:
                    search.error, search.is_done = delta.error, True
        now = self.clock()
        outputs, stopped = self.output_processor.process([delta._replace(time=now) for delta in deltas])
        self.core.finish(stopped, "stop")
        for request_id in [name for name, search in self.beam_searches.items() if search.is_done]:
            self.abort(request_id)
        return outputs
