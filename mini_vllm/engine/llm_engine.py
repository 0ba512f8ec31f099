"""LLMEngine: text on both sides of the engine core.

A prompt becomes token ids and a Request; what the core brings back becomes text. Seeds are drawn here, stop strings are
found here, and beams are steered here, so that the core knows none of them. Any scheduler and KV cache manager with the
contract's names plug in. Source: vllm/v1/engine/llm_engine.py.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, replace
from functools import partial, wraps
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from mini_vllm.config import EngineConfig
from mini_vllm.engine.core import EngineCore
from mini_vllm.errors import (
    DuplicateRequestError,
    EmptyPromptError,
    EngineBusyError,
    InvalidPromptError,
    MiniVllmError,
    TokenizerMissingError,
    UnknownParameterError,
    shown,
)
from mini_vllm.frontend.beam_search import BeamSearch
from mini_vllm.frontend.chat_template import ChatTemplateRenderer
from mini_vllm.frontend.output_processor import OnOutput, OutputProcessor, RequestOutput
from mini_vllm.frontend.prompts import (
    TextBound,
    as_prompt,
    check_params,
    check_request_id,
    check_text,
    check_token_ids,
)
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.models.checkpoint import load_generation_config, load_hf_config, load_tokenizer, resolve_model
from mini_vllm.models.config_fields import SAMPLING_FIELDS
from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.stats import SchedulerStats, StatsListener
from mini_vllm.params import SamplingParams
from mini_vllm.policies import get_classes, make_scheduler, options_of
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import SchedulerInterface
from mini_vllm.step import TokenDelta
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.memory import plan_kv_cache
from mini_vllm.worker.preemption_cost import with_preemption_cost

logger = logging.getLogger("mini_vllm")

Message = Mapping[str, Any]
REQUEST_OPTIONS = ("priority", "arrival_time", "cache_salt")
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
        self,
        config: EngineConfig,
        *,
        scheduler_cls: type[SchedulerInterface] | None = None,
        kv_cache_manager_cls: type[KVCacheManager] | None = None,
        executor_cls: type[Executor] = LocalExecutor,
        core_cls: type[EngineCore] = EngineCore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        path = resolve_model(config.model)
        hf_config = load_hf_config(path)
        self.tokenizer = load_tokenizer(path)
        self.generation_config = load_generation_config(path)
        self.eos_token_ids = find_eos_token_ids(self.generation_config, hf_config, self.tokenizer)
        self.executor = executor = executor_cls(config)
        info = executor.load()
        self.vocab_size = info.vocab_size
        options = asdict(config)
        _, manager_cls = get_classes(options, scheduler_cls, kv_cache_manager_cls)
        may_swap = "num_cpu_blocks" in options_of(manager_cls)
        plan = plan_kv_cache(config, hf_config, info, executor.available_bytes, may_swap=may_swap)
        self.kv_cache_plan = plan = replace(plan, layer_groups=manager_cls.layer_groups(info.kv_specs))
        executor.allocate(plan)
        self.config = config = with_preemption_cost(config, executor, plan)
        self._scheduler_cls, self._kv_cache_manager_cls, self._core_cls = scheduler_cls, kv_cache_manager_cls, core_cls
        self.text_bound = TextBound(self.tokenizer)
        self.chat_templates = ChatTemplateRenderer(self.tokenizer)
        self._seeds = random.Random(config.seed)
        self._posts: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._is_stepping = False
        self.lock = threading.RLock()  # held by the thread that is at work here
        self._begin()
        logger.info("%s: %s", config.model, executor)
        logger.info("%s", plan)

    def _begin(self, listeners: Sequence[StepListener] = ()) -> None:
        """A scheduler, a KV cache manager and a core without requests."""
        sizes = {name: getattr(self.kv_cache_plan, name) for name in ("num_blocks", "max_model_len", "num_cpu_blocks")}
        scheduler = make_scheduler(
            asdict(self.config) | sizes,
            scheduler_cls=self._scheduler_cls,
            kv_cache_manager_cls=self._kv_cache_manager_cls,
        )
        core = self._core_cls(scheduler, self.executor)
        core.runner.forget_all = hasattr(self, "core")  # the runner has what there was before
        self._stats = StatsListener(scheduler)
        core.listeners = [self._stats, *listeners]
        self.output_processor = OutputProcessor(self.tokenizer)
        self.beam_searches: dict[str, BeamSearch] = {}  # of requests whose choices are beams, until it is done
        self._is_stepping = False
        self.core = core

    @one_thread
    def reset(self) -> None:
        """Drop all requests, whose callers hear nothing more, and begin again with an empty KV cache.

        The model stays. So do the listeners, which see another scheduler from now on.
        """
        self._begin([listener for listener in self.listeners if listener is not self._stats])

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
        prompt: str | Sequence[int],
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
        for name in request_options:
            if name not in REQUEST_OPTIONS:
                raise UnknownParameterError(
                    f"unknown request option {shown(name)}; known: {', '.join(REQUEST_OPTIONS)}"
                )
        check_request_id(request_id)
        check_params("sampling_params", sampling_params, SamplingParams)
        token_ids = self._check_request(request_id, self.tokenize(prompt), sampling_params)
        child_ids = make_child_ids(request_id, sampling_params.n)
        for child_id in (request_id, *child_ids):
            if self.output_processor.has_request(child_id):
                raise DuplicateRequestError(f"request {shown(child_id)} is still in flight")
        options = {"arrival_time": self.clock(), "eos_token_ids": self.eos_token_ids, **request_options}
        params, seeds_before = sampling_params, self._seeds.getstate()
        if params.seed is None:
            params = replace(params, seed=self._seeds.getrandbits(64))
        text = prompt if isinstance(prompt, str) else None
        try:
            requests = [Request(name, token_ids, params, choice_index=i, **options) for i, name in enumerate(child_ids)]
            self.core.add(requests)
            self.output_processor.add_request(
                request_id, text, token_ids, params, child_ids, on_output, requests[0].arrival_time
            )
        except BaseException:
            self._seeds.setstate(seeds_before)
            raise

    def tokenize(self, prompt: str | Sequence[int], *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a prompt; token ids pass as they are. A text that can never fit is refused before it is read."""
        given = as_prompt(prompt)
        if not isinstance(given, str):
            return list(given)
        if self.tokenizer is None:
            raise TokenizerMissingError(f"{self.config.model} has no tokenizer: give the prompt as token ids")
        self.text_bound.check(given, self.max_prompt_tokens)
        check_text("prompt", given)
        try:
            return list(self.tokenizer.encode(given, add_special_tokens=add_special_tokens))
        except Exception as error:  # of a class without a name, by tokenizers: a vocabulary without [UNK], for instance
            raise InvalidPromptError(f"the tokenizer of {self.config.model} cannot read it: {shown(error)}") from error

    def apply_chat_template(self, messages: Sequence[Message], **template_options: Any) -> list[int]:
        """Token ids of a conversation, ready for the assistant's turn. template_options: see ChatTemplateRenderer.

        Raises a ChatTemplateError.
        """
        return self.tokenize(self.chat_templates.render(messages, **template_options), add_special_tokens=False)

    def default_sampling_params(self) -> SamplingParams:
        """What the checkpoint's generation_config.json asks for, as vLLM reads it."""
        found = self.generation_config
        options = {ours: found[theirs] for theirs, ours in SAMPLING_FIELDS.items() if found.get(theirs) is not None}
        if found.get("do_sample") is False:
            options["temperature"] = 0.0
        return SamplingParams(**options)

    @property
    def max_prompt_tokens(self) -> int:
        """The longest prompt that the scheduler takes."""
        return min(self.scheduler.max_model_len, self.scheduler.num_slots)

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
        is_free = self.lock.acquire(blocking=False) and not self.lock.release()  # type: ignore[func-returns-value]
        if not is_free:
            raise EngineBusyError(
                f"{what}: another thread than {threading.current_thread().name!r} is at work in this engine; "
                "let one thread call it, or give each thread an engine of its own"
            )

    def shutdown(self) -> None:
        """Give back what the executor holds, such as processes. Call it when no request is in flight."""
        self.executor.shutdown()

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
        output, future = self.core.begin_step()
        try:
            result = future.result()
        except Exception as error:
            return self.core.fail_step(output, error)
        for search in self.beam_searches.values():
            if result.errors.keys().isdisjoint(search.request_ids):
                search.advance(result.tokens)
        return self.core.finish_step(output, result)

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

    def _check_request(self, request_id: str, token_ids: list[int], params: SamplingParams) -> list[int]:
        """The prompt's token ids, of which each is one of the model's."""
        if not token_ids:
            raise EmptyPromptError(f"request {shown(request_id)}: the prompt has 0 tokens, at least 1 is needed")
        self.scheduler.check_prompt_len(request_id, len(token_ids), self.scheduler.max_model_len)
        check_token_ids(request_id, "stop_token_ids", params.stop_token_ids, self.vocab_size)
        if params.stop and self.tokenizer is None:
            raise TokenizerMissingError(
                f"{self.config.model} has no tokenizer: stop strings {shown(params.stop)} need one"
            )
        return check_token_ids(request_id, "prompt", token_ids, self.vocab_size)


def make_child_ids(request_id: str, n: int) -> list[str]:
    """The ids of a request's choices; one choice is the request itself."""
    return [f"{index}_{request_id}" for index in range(n)] if n > 1 else [request_id]


def find_eos_token_ids(generation_config: dict[str, Any], hf_config: Any, tokenizer: Any) -> frozenset[int]:
    """All ids that end a text: a checkpoint may name several (generation_config), the tokenizer adds its own."""
    found = generation_config.get("eos_token_id")
    if found is None:
        found = getattr(hf_config, "eos_token_id", None)
    ids = set(found if isinstance(found, list | tuple) else [found])
    ids.add(getattr(tokenizer, "eos_token_id", None))
    return frozenset(token_id for token_id in ids if token_id is not None)
