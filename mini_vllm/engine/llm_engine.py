"""LLMEngine: text on both sides of the engine core.

The input processor makes Requests of a prompt, and the output processor makes text of what the core
brings back. Stop strings are found here, so that the core knows none of them. Any scheduler and KV
cache manager with the contract's names plug in. Source: vllm/v1/engine/llm_engine.py.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, TypeVar, Unpack, cast

from mini_vllm.config import EngineConfig
from mini_vllm.engine.core import EngineCore
from mini_vllm.engine.core_factory import CoreFactory, EngineClasses
from mini_vllm.errors import EngineBusyError, MiniVllmError
from mini_vllm.frontend.front import Front
from mini_vllm.frontend.input_processor import InputProcessor, Message, ModelLimits
from mini_vllm.frontend.output_processor import OnOutput, OutputProcessor, RequestOutput
from mini_vllm.frontend.prompts import Prompt, check_request_id
from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.request_times import RequestTimes
from mini_vllm.observe.stats import SchedulerStats, StatsListener
from mini_vllm.params import SamplingParams
from mini_vllm.scheduler_interface import SchedulerInterface

logger = logging.getLogger("mini_vllm")

Method = TypeVar("Method", bound=Callable[..., Any])


def one_thread(method: Method) -> Method:
    """One thread at a time is inside these methods; a second one gets EngineBusyError.

    What breaks off in the middle, by an interrupt for instance, leaves a dead engine: half a change
    is no state.
    """

    @wraps(method)
    def guarded(engine: "LLMEngine", *args: Any, **kwargs: Any) -> Any:
        engine.refuse_other_threads(method.__name__)
        with engine.lock:
            try:
                return method(engine, *args, **kwargs)
            # a refusal; the core knows whether it was more
            except (MiniVllmError, TypeError, ValueError):
                raise
            except BaseException:
                engine.core.is_dead = True
                raise

    return cast(Method, guarded)


class LLMEngine:
    """Owns the engine core, the tokenizer and the texts. step() serves every request in flight.

    One thread at a time may call it. An error of a step is raised at once, and so is an interrupt.
    The engine then refuses to go on until reset().

    scheduler_cls and kv_cache_manager_cls: classes with the contract of SchedulerInterface and
    KVCacheManager; None is ours. executor_cls: where steps run. core_cls: RecoveringCore goes on
    when a device has failed. Raises a CheckpointError when the model cannot be loaded,
    InvalidParameterError for a bad config.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        clock: Callable[[], float] = time.monotonic,
        **classes: Unpack[EngineClasses],
    ) -> None:
        self.clock = clock
        self._factory = CoreFactory(config, **classes)
        self.config = self._factory.config
        self.kv_cache_plan = self._factory.kv_cache_plan
        self.executor = self._factory.executor
        self.vocab_size = self._factory.model_info.vocab_size
        self.lock = threading.RLock()  # held by the thread that is at work here
        core = self._factory.make()
        limits = ModelLimits(
            self.vocab_size, core.scheduler.max_model_len, core.scheduler.num_slots
        )
        try:
            self._front = Front(InputProcessor(config, limits), config.seed, clock)
        except BaseException:
            self.shutdown()
            raise
        self._begin(core)

    def _begin(self, core: EngineCore, listeners: Sequence[StepListener] = ()) -> None:
        """Go on with a core that has no requests."""
        self._stats, self._times = StatsListener(core.scheduler), RequestTimes(self.clock)
        core.listeners = [self._stats, self._times, *listeners]
        self._front.forget_all()
        self._is_stepping = False
        self.core = core

    @one_thread
    def reset(self) -> None:
        """Drop all requests, whose callers hear nothing more, and begin again with an empty KV
        cache.

        The model stays. So do the listeners, which see another scheduler from now on.
        """
        self._begin(
            self._factory.make(),
            [each for each in self.listeners if each not in (self._stats, self._times)],
        )

    @property
    def input_processor(self) -> InputProcessor:
        """What reads texts and conversations."""
        return self._front.input_processor

    @property
    def output_processor(self) -> OutputProcessor:
        """What makes texts of tokens, for the requests in flight."""
        return self._front.output_processor

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

    # --- requests come and go ---------------------------------------------------------------------

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

        on_output: gets every output of the request, also the one that says that it was aborted. It
        may add and abort requests, at the end also one of the same id, and must not step. What it
        raises is raised by step().

        Raises what Front.add_request raises; then nothing has changed.
        """
        front = self._front
        front.add_request(
            request_id, prompt, sampling_params, on_output, request_options, self.core.add
        )

    def tokenize(self, prompt: Prompt) -> list[int]:
        """InputProcessor.tokenize."""
        return self.input_processor.tokenize(prompt)

    def apply_chat_template(
        self, messages: Sequence[Message], **template_options: Any
    ) -> list[int]:
        """InputProcessor.apply_chat_template."""
        return self.input_processor.apply_chat_template(messages, **template_options)

    def default_sampling_params(self) -> SamplingParams:
        """InputProcessor.default_sampling_params."""
        return self.input_processor.default_sampling_params()

    @one_thread
    def abort(self, request_id: str) -> None:
        """Drop a request and all its choices; its blocks are free at once.

        Unknown ids are ignored.
        """
        check_request_id(request_id)
        self.core.finish(self.output_processor.get_child_ids(request_id), "abort")
        self.output_processor.abort(request_id)

    def has_unfinished_requests(self) -> bool:
        """Whether step() has anything to compute."""
        return self.core.has_unfinished_requests()

    def refuse_other_threads(self, what: str) -> None:
        """Raises EngineBusyError if another thread is at work here.

        `what` is what the caller wants to do.
        """
        if not self.lock.acquire(blocking=False):
            raise EngineBusyError(
                f"{what}: another thread than {threading.current_thread().name!r} is at work in "
                "this engine; "
                "let one thread call it, or give each thread an engine of its own"
            )
        self.lock.release()

    def shutdown(self) -> None:
        """Give back what the executor holds, such as processes.

        Call it when no request is in flight.
        """
        self._factory.shutdown()

    # --- one step ---------------------------------------------------------------------------------

    @one_thread
    def step(self) -> list[RequestOutput]:
        """One iteration.

        Returns, with all their text so far, the requests that got a token or finished.

        What the scheduler, a manager or the model raises is raised; then reset() begins again.
        Raises SchedulerStalledError if the scheduler has work but schedules none.
        """
        if self._is_stepping:
            raise EngineBusyError(
                "step: a listener or an on_output is called within a step, and must not step itself"
            )
        self._is_stepping = True
        try:
            deltas = self._times.stamped(self.core.step())
            stop = partial(self.core.finish, reason="stop")
            return self.output_processor.process(deltas, stop)[0]
        except Exception:
            self.core.is_dead = True
            raise
        finally:
            self._is_stepping = False
