"""LLMEngine: text on both sides of the engine core.

A prompt becomes token ids and a Request; what the core brings back becomes text. Seeds are drawn here, stop strings are
found here, and beams are steered here, so that the core knows none of them. Any scheduler and KV cache manager with the
contract's names plug in. Source: vllm/v1/engine/llm_engine.py.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import wraps
from typing import Any, TypeVar, cast

from mini_vllm.config import EngineConfig
from mini_vllm.engine_core import EngineCore
from mini_vllm.errors import (
    DuplicateRequestError,
    EmptyPromptError,
    EngineBusyError,
    MiniVllmError,
    TokenizerMissingError,
    UnknownParameterError,
    shown,
)
from mini_vllm.frontend.beam_search import BeamSearch
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
from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.stats import SchedulerStats, StatsListener
from mini_vllm.params import SamplingParams
from mini_vllm.policies import get_classes, make_scheduler, options_of
from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerInterface
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.memory import plan_kv_cache
from mini_vllm.worker.preemption_cost import with_preemption_cost

logger = logging.getLogger("mini_vllm")

REQUEST_OPTIONS = ("priority", "arrival_time", "cache_salt")
Method = TypeVar("Method", bound=Callable[..., Any])


def one_thread(method: Method) -> Method:
    """Raise EngineBusyError in a thread that calls the method while another thread is inside one of them."""

    @wraps(method)
    def guarded(engine: "LLMEngine", *args: Any, **kwargs: Any) -> Any:
        engine.refuse_other_threads(method.__name__)
        with engine.lock:
            return method(engine, *args, **kwargs)

    return cast(Method, guarded)


class LLMEngine:
    """Owns the engine core, the tokenizer and the texts. step() serves every request in flight.

    One thread at a time may call it. A call that is interrupted, wherever that may be, has happened or it has not: the
    requests go on with the next step(), and their tokens and texts are those that they would have been.

    scheduler_cls and kv_cache_manager_cls: classes with the contract of SchedulerInterface and KVCacheManager; None is
    ours. executor_cls: where steps run. Raises CheckpointError and its kin when the model cannot be loaded,
    InvalidParameterError for a bad config.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        scheduler_cls: type[SchedulerInterface] | None = None,
        kv_cache_manager_cls: type[KVCacheManager] | None = None,
        executor_cls: type[Executor] = LocalExecutor,
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
        self.kv_cache_plan = plan = plan_kv_cache(config, hf_config, info, executor.available_bytes, may_swap=may_swap)
        executor.allocate(plan)
        self.config = config = with_preemption_cost(config, executor, plan)
        sizes = {name: getattr(plan, name) for name in ("num_blocks", "max_model_len", "num_cpu_blocks")}
        scheduler = make_scheduler(
            asdict(config) | sizes, scheduler_cls=scheduler_cls, kv_cache_manager_cls=kv_cache_manager_cls
        )
        self.core = EngineCore(scheduler, executor)
        self._stats = StatsListener(scheduler)
        self.core.listeners.append(self._stats)
        self.output_processor = OutputProcessor(self.tokenizer)
        self.text_bound = TextBound(self.tokenizer)
        self.beam_searches: dict[str, BeamSearch] = {}  # of requests whose choices are beams, until it is done
        self._seeds = random.Random(config.seed)
        self._outputs: list[RequestOutput] = []  # of the last step
        self._taken: list[RequestOutput] = []  # of this step, while it is taken in
        self._is_lost = False  # it was interrupted: its caller does not have them
        self._is_stepping = False
        self.lock = threading.RLock()  # held by the thread that is at work here
        logger.info("%s: %s", config.model, executor)
        logger.info("%s", plan)

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
        requests, and must not step. What it raises is logged.

        n > 1 becomes n requests over the same prompt: the first computes it, the others find it in the prefix cache
        (vLLM V1's ParentRequest). Raises RequestRefusedError and its kin; then nothing has changed.
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
            self.output_processor.add_request(request_id, text, token_ids, params, child_ids, on_output)
            self.core.add(requests)
        except BaseException as error:
            self._seeds.setstate(seeds_before)
            if not isinstance(error, MiniVllmError):  # it is no refusal: some may have been added
                self.core.abort(child_ids)
            self.output_processor.forget(request_id)
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
        return list(self.tokenizer.encode(given, add_special_tokens=add_special_tokens))

    @property
    def max_prompt_tokens(self) -> int:
        """The longest prompt that the scheduler takes."""
        return min(self.scheduler.max_model_len, self.scheduler.num_slots)

    @one_thread
    def abort(self, request_id: str) -> None:
        """Drop a request and all its choices; its blocks are free at once. Unknown ids are ignored."""
        check_request_id(request_id)
        if request_id in self.beam_searches:
            self.beam_searches[request_id].is_done = True
        child_ids = self.output_processor.get_child_ids(request_id)
        self.core.abort(child_ids)
        self.core.deltas = [delta for delta in self.core.deltas if delta.request_id not in child_ids]
        self._outputs, self._taken = (
            [output for output in outputs if output.request_id != request_id]
            for outputs in (self._outputs, self._taken)
        )
        self.output_processor.abort(request_id)
        self.beam_searches.pop(request_id, None)

    def has_unfinished_requests(self) -> bool:
        """Whether step() has anything to compute, or to tell."""
        return self.core.has_unfinished_requests() or bool(self.core.deltas or (self._is_lost and self._outputs))

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

    def step(self) -> list[RequestOutput]:
        """One iteration. Returns, with all their text so far, the requests that got a token or finished.

        If the model raises, every request of the step is preempted and tried again by the next call; the exception
        is passed on. After EngineCore's MAX_FAILURES in a row the requests are run one by one, and those at fault end
        with reason "error". Raises SchedulerStalledError if the scheduler has work but schedules none.
        """
        self.refuse_other_threads("step")
        if self._is_stepping:
            raise EngineBusyError("step: a listener or an on_output is called within a step, and must not step itself")
        if not self._is_lost:
            self._outputs = []
        try:
            try:
                with self.lock:
                    self._is_stepping = True
                    if not self._outputs:
                        if not self.core.deltas:
                            self._compute()
                        self._outputs = self._take_in()
                    self.core.deltas = []
                    self.output_processor.drop_finished()
                    self._is_lost = False
                    return self._outputs
            finally:
                self._is_stepping = False
        except BaseException:
            self._is_lost, self._is_stepping = True, False
            raise

    def _compute(self) -> None:
        """One step of the core. What it brings lies in core.deltas."""
        beams_before = [(search, vars(search).copy()) for search in self.beam_searches.values()]
        try:
            output, future = self.core.begin_step()
            result = future.result()
            for search in self.beam_searches.values():
                if result.errors.keys().isdisjoint(search.request_ids):
                    search.advance(result.tokens)
            self.core.finish_step(output, result)
        except BaseException as error:
            try:
                self.core.fail_step(error)
            finally:
                if not any(delta.tokens for delta in self.core.deltas):  # else it is the way back that was interrupted
                    for search, before in beams_before:
                        vars(search).update(before)
            raise

    def _take_in(self) -> list[RequestOutput]:
        """Make text of what the core has brought. It may be interrupted, and called once more."""
        for delta in self.core.deltas:
            for search in self.beam_searches.values() if delta.error else ():
                if delta.request_id in search.request_ids:
                    search.error, search.is_done = delta.error, True
        self._taken, stopped = self.output_processor.take_in(self.core.deltas)
        self.core.finish(stopped, "stop")
        for request_id in [name for name, search in self.beam_searches.items() if search.is_done]:
            self.abort(request_id)
        return self._taken

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
