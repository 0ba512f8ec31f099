"""LLM: generate text with one call. A thin layer over LLMEngine that waits for the requests it added.

Source: vllm/entrypoints/llm.py.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID

from mini_vllm.config import EngineConfig
from mini_vllm.engine import LLMEngine, make_child_ids
from mini_vllm.errors import InvalidParameterError
from mini_vllm.frontend.beam_search import BeamSearch, BeamSearchOutput, BeamSearchParams
from mini_vllm.frontend.chat_template import ChatTemplateRenderer, as_conversations
from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.frontend.prompts import Prompt, as_batch, check_params, one_each
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import SamplingParams
from mini_vllm.scheduler import SchedulerInterface
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.local_executor import LocalExecutor

Message = Mapping[str, Any]


class LLM:
    """An engine for offline use. A prompt is a string or a list of token ids; **config are EngineConfig's fields."""

    def __init__(
        self,
        model: str = "tiny",
        *,
        scheduler_cls: type[SchedulerInterface] | None = None,
        kv_cache_manager_cls: type[KVCacheManager] | None = None,
        executor_cls: type[Executor] = LocalExecutor,
        **config: Any,
    ) -> None:
        self.engine = LLMEngine(
            EngineConfig(model, **config),
            scheduler_cls=scheduler_cls,
            kv_cache_manager_cls=kv_cache_manager_cls,
            executor_cls=executor_cls,
        )
        self.chat_templates = ChatTemplateRenderer(self.engine.tokenizer)
        self._ids = count()
        self._latest: dict[str, RequestOutput | None] = {}  # of the requests that somebody here waits for

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_progress: bool | None = None,
    ) -> list[RequestOutput]:
        """Complete one prompt or many; the results are in the order of the prompts.

        sampling_params: one for all, one for each, or None for the checkpoint's generation_config. use_progress: a
        progress bar; None shows one for several prompts on a terminal. If a prompt is refused, none is generated.
        """
        batch = as_batch(prompts)
        params = self._one_each(sampling_params, len(batch))
        request_ids: list[str] = []
        try:
            for prompt, each in zip(batch, params, strict=True):
                request_ids.append(self._add(prompt, each))
            self._run(request_ids, sys.stderr.isatty() and len(batch) > 1 if use_progress is None else use_progress)
            return [output for request_id in request_ids if (output := self._latest[request_id])]
        finally:
            for request_id in request_ids:
                self._drop(request_id)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_progress: bool | None = None,
        **template_options: Any,
    ) -> list[RequestOutput]:
        """Answer one conversation or many. A message is {"role": ..., "content": ...}; the template is the model's."""
        prompts = [self.apply_chat_template(each, **template_options) for each in as_conversations(messages)]
        return self.generate(prompts, sampling_params, use_progress=use_progress)

    def stream(self, prompt: Prompt, sampling_params: SamplingParams | None = None) -> Iterator[RequestOutput]:
        """Complete one prompt; every yield carries only what is new. Closing the iterator aborts the request."""
        request_id = self._add(prompt, self._one_each(sampling_params, 1)[0])
        previous: RequestOutput | None = None
        try:
            while previous is None or not previous.finished:
                self._step()
                output = self._latest[request_id]
                if output is not None and output is not previous:
                    delta = output.delta_since(previous)  # of several steps, if somebody else has stepped, too
                    previous = output
                    yield delta
        finally:
            self._drop(request_id)

    def beam_search(self, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams) -> list[BeamSearchOutput]:
        """The beam_width best completions of one prompt or many, with scheduler="sequence_group".

        Others in flight go on beside them. If a prompt is refused, none is searched.
        """
        searches: dict[str, tuple[list[int], BeamSearch]] = {}
        try:
            for prompt in as_batch(prompts):
                token_ids = self.engine.tokenize(prompt)
                request_id = f"llm-{next(self._ids)}"
                searches[request_id] = token_ids, self._add_beam_search(request_id, token_ids, params)
            while not all(search.is_done for _, search in searches.values()):
                self._step()
        finally:
            for request_id in searches:
                self.engine.abort(request_id)
        return [
            BeamSearchOutput(token_ids, [replace(beam, text=self._decode(beam.token_ids)) for beam in search.finished])
            for token_ids, search in searches.values()
        ]

    def apply_chat_template(self, messages: Sequence[Message], **template_options: Any) -> list[int]:
        """Token ids of a conversation, ready for the assistant's turn. template_options: see ChatTemplateRenderer.

        Raises ChatTemplateError and its kin.
        """
        text = self.chat_templates.render(messages, **template_options)
        return self.engine.tokenize(text, add_special_tokens=False)

    def default_sampling_params(self) -> SamplingParams:
        """What the checkpoint's generation_config.json asks for, as vLLM reads it."""
        found = self.engine.generation_config
        names = {"max_new_tokens": "max_tokens"} | {
            name: name for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        }
        options = {ours: found[theirs] for theirs, ours in names.items() if found.get(theirs) is not None}
        if found.get("do_sample") is False:
            options["temperature"] = 0.0
        return SamplingParams(**options)

    def _one_each(
        self, sampling_params: SamplingParams | Sequence[SamplingParams] | None, num_prompts: int
    ) -> Sequence[SamplingParams]:
        return one_each(self.default_sampling_params() if sampling_params is None else sampling_params, num_prompts)

    def _add(self, prompt: Prompt, sampling_params: SamplingParams) -> str:
        request_id = f"llm-{next(self._ids)}"
        self.engine.add_request(request_id, prompt, sampling_params)
        self._latest[request_id] = None
        return request_id

    def _add_beam_search(self, request_id: str, token_ids: list[int], params: BeamSearchParams) -> BeamSearch:
        check_params("params", params, BeamSearchParams)
        engine, scheduler = self.engine, self.engine.scheduler
        if not scheduler.can_fork:
            name = engine.config.scheduler
            raise InvalidParameterError(f"beam_search needs scheduler='sequence_group', which forks; got {name!r}")
        num_tokens = max(min(params.max_tokens, scheduler.max_model_len - len(token_ids)), 1)
        child_ids = make_child_ids(request_id, params.beam_width)
        search = BeamSearch(child_ids, params, num_tokens, engine.eos_token_ids, scheduler.fork_request)
        engine.add_request(request_id, token_ids, search.sampling_params)
        engine.beam_searches[request_id] = search
        return search

    def _decode(self, token_ids: Sequence[int]) -> str:
        tokenizer = self.engine.tokenizer
        return "" if tokenizer is None else str(tokenizer.decode(list(token_ids), skip_special_tokens=True))

    def _drop(self, request_id: str) -> None:
        """Stop waiting for a request; one that is not finished is aborted."""
        self._latest.pop(request_id, None)
        self.engine.abort(request_id)

    def _step(self) -> None:
        """One step for everybody: a stream and a generate() in flight together each find their own output."""
        for output in self.engine.step():
            if output.request_id in self._latest:
                self._latest[output.request_id] = output

    def _is_finished(self, request_id: str) -> bool:
        output = self._latest[request_id]
        return output is not None and output.finished

    def _run(self, request_ids: Sequence[str], use_progress: bool) -> None:
        waiting = set(request_ids)
        with Progress(console=Console(stderr=True), disable=not use_progress) as progress:
            task: TaskID = progress.add_task("generating", total=len(waiting))
            while waiting:
                self._step()
                finished = {request_id for request_id in waiting if self._is_finished(request_id)}
                waiting -= finished
                progress.advance(task, len(finished))
