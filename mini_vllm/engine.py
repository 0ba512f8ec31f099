"""LLMEngine: the loop schedule() -> execute() -> update_from_output(), and nothing else.

Everything serves this loop. The scheduler decides, the runner computes, the output processor turns token ids into
text; the engine only carries data between them. Any scheduler and KV cache manager with the contract's names plug in.
Source: vllm/v1/engine/core.py (EngineCore.step), vllm/v1/engine/llm_engine.py.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

import torch

from mini_vllm.attention import get_backend
from mini_vllm.config import EngineConfig
from mini_vllm.errors import (
    DuplicateRequestError,
    EmptyPromptError,
    InvalidParameterError,
    SchedulerStalledError,
    TokenIdOutOfRangeError,
    TokenizerMissingError,
    UnknownParameterError,
)
from mini_vllm.frontend.beam_search import BeamSearch
from mini_vllm.frontend.output_processor import OutputProcessor, RequestOutput
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.models import load_model
from mini_vllm.models.checkpoint import load_generation_config, load_hf_config, load_tokenizer, resolve_model
from mini_vllm.observe.stats import SchedulerStats, StatsRecorder
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.params import SamplingParams
from mini_vllm.policies import make_scheduler
from mini_vllm.request import Request
from mini_vllm.scheduler import Scheduler, SchedulerOutput
from mini_vllm.step import SampledToken, SamplingRow, ScheduledChunk, StepInput
from mini_vllm.worker.memory import plan_kv_cache
from mini_vllm.worker.model_runner import ModelRunner
from mini_vllm.worker.preemption_cost import with_preemption_cost

logger = logging.getLogger("mini_vllm")

REQUEST_OPTIONS = ("priority", "arrival_time", "cache_salt")


class LLMEngine:
    """Owns model, scheduler and KV cache. One thread calls it; step() does one iteration for every request in flight.

    scheduler_cls and kv_cache_manager_cls: classes with the contract of Scheduler and KVCacheManager; None is ours.
    Raises CheckpointError and its kin when the model cannot be loaded, InvalidParameterError for a bad config.
    """

    def __init__(
        self,
        config: EngineConfig,
        *,
        scheduler_cls: type[Scheduler] | None = None,
        kv_cache_manager_cls: type[KVCacheManager] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.clock = clock
        path = resolve_model(config.model)
        hf_config = load_hf_config(path)
        device = pick_device(config.device)
        dtype = pick_dtype(config.dtype, hf_config)
        backend = get_backend(config.attention_backend, device)
        self.tokenizer = load_tokenizer(path)
        self.generation_config = load_generation_config(path)
        self.eos_token_ids = find_eos_token_ids(self.generation_config, hf_config, self.tokenizer)
        model = load_model(path, hf_config, dtype=dtype, device=device)
        self.vocab_size = model.vocab_size
        self.kv_cache_plan = plan = plan_kv_cache(config, model, hf_config, dtype, device)
        self.runner = ModelRunner(
            model,
            backend,
            num_blocks=plan.num_blocks,
            block_size=plan.block_size,
            dtype=dtype,
            device=device,
            num_cpu_blocks=plan.num_cpu_blocks,
        )
        self.config = config = with_preemption_cost(config, self.runner, plan.max_model_len)
        sizes = {name: getattr(plan, name) for name in ("num_blocks", "max_model_len", "num_cpu_blocks")}
        self.scheduler = make_scheduler(
            asdict(config) | sizes, scheduler_cls=scheduler_cls, kv_cache_manager_cls=kv_cache_manager_cls
        )
        self.stats: SchedulerStats | None = None  # of the last step
        self._stats_recorder = StatsRecorder(self.scheduler)
        self.output_processor = OutputProcessor(self.tokenizer)
        self.trace: TraceRecorder | None = None
        self._seeds = random.Random(config.seed)
        self._rows: dict[str, tuple[int, int]] = {}  # child request id -> (seed, choice index)
        self._finished_req_ids: list[str] = []  # since the last step
        self.beam_searches: dict[str, BeamSearch] = {}  # of requests whose choices are beams, until it is done
        logger.info("%s: %s on %s, attention %s", config.model, dtype, device, backend.name)
        logger.info("%s", plan)

    # --- requests come and go -------------------------------------------------------------------------------------

    def add_request(
        self, request_id: str, prompt: str | Sequence[int], sampling_params: SamplingParams, **request_options: Any
    ) -> None:
        """Queue a prompt (text or token ids). request_options: priority, arrival_time, cache_salt.

        n > 1 becomes n requests over the same prompt: the first computes it, the others find it in the prefix cache
        (vLLM V1's ParentRequest). Raises RequestRefusedError and its kin; then nothing has changed.
        """
        for name in request_options:
            if name not in REQUEST_OPTIONS:
                raise UnknownParameterError(f"unknown request option {name!r}; known: {', '.join(REQUEST_OPTIONS)}")
        params = sampling_params
        token_ids = self.tokenize(prompt)
        self._check_request(request_id, token_ids, params)
        child_ids = make_child_ids(request_id, params.n)
        for child_id in (request_id, *child_ids):
            if child_id in self._rows or self.output_processor.has_request(child_id):
                raise DuplicateRequestError(f"request {child_id!r} is still in flight")
        children = [
            Request(
                child_id,
                token_ids,
                params,
                eos_token_ids=self.eos_token_ids,
                **{"arrival_time": self.clock(), **request_options},
            )
            for child_id in child_ids
        ]
        if len(children) == 1:
            self.scheduler.add_request(children[0])
        else:  # all of one length: the first is refused or none is
            self.scheduler.add_group(children)
        seed = self._seeds.getrandbits(64) if params.seed is None else params.seed
        self._rows.update({child_id: (seed, index) for index, child_id in enumerate(child_ids)})
        self.output_processor.add_request(
            request_id, prompt if isinstance(prompt, str) else None, token_ids, params, child_ids
        )

    def tokenize(self, prompt: str | Sequence[int]) -> list[int]:
        """Token ids of a prompt; token ids pass as they are."""
        if not isinstance(prompt, str):
            return list(prompt)
        if self.tokenizer is None:
            raise TokenizerMissingError(f"{self.config.model} has no tokenizer: give the prompt as token ids")
        return list(self.tokenizer.encode(prompt))

    def abort(self, request_id: str) -> None:
        """Drop a request and all its choices; its blocks are free at once. Unknown ids are ignored."""
        self.beam_searches.pop(request_id, None)
        for child_id in self.output_processor.abort(request_id):
            self.scheduler.abort_request(child_id)
            self._forget(child_id)

    def has_unfinished_requests(self) -> bool:
        return self.scheduler.has_unfinished_requests()

    # --- one step -------------------------------------------------------------------------------------------------

    def step(self) -> list[RequestOutput]:
        """One iteration. Returns, with all their text so far, the requests that got a token or finished.

        If the model raises, every request of the step is preempted and tried again by the next call; the exception
        is passed on. Raises SchedulerStalledError if the scheduler has work but schedules none.
        """
        scheduler = self.scheduler
        if self.trace:
            self.trace.before_schedule()
        output = scheduler.schedule()
        self.stats = self._stats_recorder.record(output)
        if self.trace:
            self.trace.after_schedule(output)
        if not output.has_work and not output.preempted_req_ids and scheduler.has_unfinished_requests():
            raise SchedulerStalledError("requests are unfinished, but schedule() gave no tokens to any of them")
        try:
            sampled = self.runner.execute(self._snapshot(output)) if output.has_work else {}
            for search in self.beam_searches.values():
                search.advance(sampled)
        except BaseException:
            scheduler.fail_step(output)
            if self.trace:
                self.trace.after_update({}, (), failed=True)
            raise
        self._finished_req_ids.clear()
        token_ids = {request_id: [token.token_id] for request_id, token in sampled.items()}
        finished = scheduler.update_from_output(output, token_ids)
        finished += self._process_tokens(output, sampled)
        for request in finished:
            self._forget(request.request_id)
        if self.trace:
            self.trace.after_update(token_ids, finished)
        for request_id in [name for name, search in self.beam_searches.items() if search.is_done]:
            self.abort(request_id)
        return self.output_processor.pop_outputs()

    def _snapshot(self, output: SchedulerOutput) -> StepInput:
        """Freeze what the runner needs to know of this step."""
        get_block_ids = self.scheduler.kv_cache_manager.get_block_ids
        chunks = []
        for request in output.scheduled_requests:
            n = output.num_scheduled_tokens[request.request_id]
            start = request.num_computed_tokens
            forks = output.forks.get(request.request_id, ())
            chunks.append(
                ScheduledChunk(
                    request.request_id,
                    tuple(request.all_token_ids[start : start + n]),
                    start,
                    tuple(get_block_ids(request.request_id)),
                    self._sampling_row(request) if self.scheduler.needs_sample(request, n) else None,
                    tuple((fork.request_id, self._sampling_row(fork)) for fork in forks),
                )
            )
        return StepInput(
            tuple(chunks),
            tuple(self._finished_req_ids),
            tuple(output.blocks_to_swap_out),
            tuple(output.blocks_to_swap_in),
            tuple(output.blocks_to_copy),
        )

    def _sampling_row(self, request: Request) -> SamplingRow:
        params = request.sampling_params
        seed, choice_index = self._rows[request.request_id]
        return SamplingRow(
            params,
            seed,
            choice_index,
            request.num_tokens,
            tuple(request.prompt_token_ids) if params.has_penalties else (),
            tuple(request.output_token_ids) if params.has_penalties else (),
        )

    def _process_tokens(self, output: SchedulerOutput, sampled: dict[str, SampledToken]) -> list[Request]:
        """Tokens to text; a stop string found there ends its request in the scheduler, too. Returns those."""
        requests = [*output.scheduled_requests, *chain.from_iterable(output.forks.values())]
        for request in requests:
            token = sampled.get(request.request_id)
            if token is not None:
                self.output_processor.add_token(request, token)
        stopped = self.output_processor.pop_stopped()
        for request_id in stopped:
            self.scheduler.finish_request(request_id, "stop")
        return [request for request in requests if request.request_id in stopped]

    def _forget(self, request_id: str) -> None:
        if self._rows.pop(request_id, None) is not None:
            self._finished_req_ids.append(request_id)

    def _check_request(self, request_id: str, token_ids: list[int], params: SamplingParams) -> None:
        if not token_ids:
            raise EmptyPromptError(f"request {request_id!r}: the prompt has 0 tokens, at least 1 is needed")
        for name, ids in (("prompt", token_ids), ("stop_token_ids", params.stop_token_ids)):
            for token_id in ids:
                if not isinstance(token_id, int) or not 0 <= token_id < self.vocab_size:
                    raise TokenIdOutOfRangeError(
                        f"request {request_id!r}: {name} has token id {token_id!r}, allowed are [0, {self.vocab_size})"
                    )
        if params.stop and self.tokenizer is None:
            raise TokenizerMissingError(f"{self.config.model} has no tokenizer: stop strings {params.stop} need one")


def make_child_ids(request_id: str, n: int) -> list[str]:
    """The ids of a request's choices; one choice is the request itself."""
    return [f"{index}_{request_id}" for index in range(n)] if n > 1 else [request_id]


# --- what a config leaves open ------------------------------------------------------------------------------------


def pick_device(name: str) -> torch.device:
    """ "auto" is the first CUDA device if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InvalidParameterError(f"device {name!r} is asked for, but torch finds no CUDA device")
    return torch.device(name)


def pick_dtype(name: str, hf_config: Any) -> torch.dtype:
    """ "auto" is the dtype that the checkpoint's config names, float32 where it names none."""
    chosen = getattr(hf_config, "dtype", None) if name == "auto" else name
    dtype = getattr(torch, chosen, None) if isinstance(chosen, str) else chosen
    if dtype is None and name == "auto":
        return torch.float32
    for supported in (torch.float32, torch.bfloat16, torch.float16):
        if dtype == supported:
            return supported
    raise InvalidParameterError(f"dtype must be float32, bfloat16 or float16, got {chosen!r}")


def find_eos_token_ids(generation_config: dict[str, Any], hf_config: Any, tokenizer: Any) -> frozenset[int]:
    """All ids that end a text: a checkpoint may name several (generation_config), the tokenizer adds its own."""
    found = generation_config.get("eos_token_id")
    if found is None:
        found = getattr(hf_config, "eos_token_id", None)
    ids = set(found if isinstance(found, list | tuple) else [found])
    ids.add(getattr(tokenizer, "eos_token_id", None))
    return frozenset(token_id for token_id in ids if token_id is not None)
