"""LLM: generate text with one call. A thin layer over LLMEngine that waits for the requests it
added.

Source: vllm/entrypoints/llm.py.
"""

import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

from rich.console import Console
from rich.progress import Progress

from mini_vllm.config import EngineConfig
from mini_vllm.engine.beam_search import BeamSearch, BeamSearchOutput, BeamSearchParams
from mini_vllm.engine.interrupts import Interrupts
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.errors import EngineDeadError
from mini_vllm.frontend.assistant_parser import AssistantParser
from mini_vllm.frontend.chat_template import as_conversations, as_schemas
from mini_vllm.frontend.input_processor import Message
from mini_vllm.frontend.output_processor import OnOutput, RequestOutput
from mini_vllm.frontend.prompts import Prompt, as_batch, check_params, one_each
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.params import SamplingParams
from mini_vllm.scheduler_interface import SchedulerInterface
from mini_vllm.worker.executor import Executor


class LLM:
    """An engine for offline use.

    A prompt is a string or a list of token ids; **config are EngineConfig's fields.

    What a step raises is raised by the call that made the step, and all requests in flight are
    dropped. The first Ctrl-C ends a call after the step, a second one at once. Afterwards the next
    call finds an engine that is free.
    """

    def __init__(
        self,
        model: str = "tiny",
        *,
        scheduler_cls: type[SchedulerInterface] | None = None,
        kv_cache_manager_cls: type[KVCacheManager] | None = None,
        executor_cls: type[Executor] | None = None,
        **config: Any,
    ) -> None:
        self.engine = LLMEngine(
            EngineConfig(model, **config),
            scheduler_cls=scheduler_cls,
            kv_cache_manager_cls=kv_cache_manager_cls,
            executor_cls=executor_cls,
        )
        self._ids = count()
        # of the requests for which a caller waits
        self._results: dict[str, RequestOutput | None] = {}

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        use_progress: bool | None = None,
    ) -> list[RequestOutput]:
        """Complete one prompt or many; the results are in the order of the prompts.

        sampling_params: one for all, one for each, or None for the checkpoint's generation_config.
        use_progress: a progress bar; None shows one for several prompts on a terminal. If a prompt
        is refused, none is generated.
        """
        batch = as_batch(prompts)
        params = self._one_each(sampling_params, len(batch))
        show = sys.stderr.isatty() and len(batch) > 1 if use_progress is None else use_progress
        with self._serving("generate") as (request_ids, interrupts):
            for prompt, each in zip(batch, params, strict=True):
                self._add(prompt, each, "final_only", request_ids)
            self._run(request_ids, interrupts, show)
            return [output for request_id in request_ids if (output := self._results[request_id])]

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        tools: Sequence[Any] | None = None,
        tool_choice: str | Mapping[str, Any] | None = None,
        parallel_tool_calls: bool | None = None,
        use_progress: bool | None = None,
        **template_options: Any,
    ) -> list[RequestOutput]:
        """Answer one conversation or many.

        A message is {"role": ..., "content": ...}; the template is the model's.

        The message of each choice is one, too: a conversation goes on behind it. tools: in OpenAI's
        shape, or functions with type hints and docstrings. tool_choice, parallel_tool_calls: see
        ToolUse.
        """
        use = ToolUse(as_schemas(tools), tool_choice, parallel_tool_calls)
        options = template_options | {"tools": use.tools}
        prompts = [self.apply_chat_template(each, **options) for each in as_conversations(messages)]
        params = [use.constrain(each) for each in self._one_each(sampling_params, len(prompts))]
        form_of = self.engine.input_processor.form_of
        forms = [form_of(prompt, use, each) for prompt, each in zip(prompts, params, strict=True)]
        params = [form.constrain(each) for form, each in zip(forms, params, strict=True)]
        outputs = self.generate(prompts, params, use_progress=use_progress)
        for output, form in zip(outputs, forms, strict=True):
            for index, choice in enumerate(output.outputs):
                message = AssistantParser(form).finish(choice.text).as_message()
                output.outputs[index] = replace(choice, message=message)
        return outputs

    def stream(
        self, prompt: Prompt, sampling_params: SamplingParams | None = None
    ) -> Iterator[RequestOutput]:
        """Complete one prompt; every yield carries only what is new.

        Closing the iterator aborts the request.
        """
        request_ids: list[str] = []
        # of several steps, if another caller has stepped, too
        deltas: deque[RequestOutput] = deque()
        params = self._one_each(sampling_params, 1)[0]
        is_finished = False
        try:
            self._revive()
            with Interrupts():
                request_id = self._add(prompt, params, "delta", request_ids, deltas.append)
            while not is_finished:
                if not deltas:
                    if request_id not in self._results:
                        raise EngineDeadError(
                            "stream: its request was dropped when another call failed"
                        )
                    with Interrupts():
                        self._step()
                while deltas:
                    delta = deltas.popleft()
                    is_finished = delta.finished
                    yield delta
        finally:
            with Interrupts() as interrupts:
                interrupts.leave()
                self._drop(request_ids)

    def beam_search(
        self, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams
    ) -> list[BeamSearchOutput]:
        """The beam_width best completions of one prompt or many.

        Each round is a generate() of one token behind each beam, and requests of other callers go
        on beside it. If a prompt is refused, none is searched. A request that fails or is aborted
        ends its own search. Source: vllm/entrypoints/generate/beam_search/offline.py (0.33.0).
        """
        check_params("params", params, BeamSearchParams)
        engine = self.engine
        max_model_len = engine.scheduler.max_model_len
        eos_token_ids = engine.input_processor.eos_token_ids
        batch = [engine.tokenize(prompt) for prompt in as_batch(prompts)]
        searches = [BeamSearch(ids, params, max_model_len, eos_token_ids) for ids in batch]
        engine.refuse_other_threads("beam_search")
        with engine.lock:
            while going_on := [search for search in searches if not search.is_done]:
                prompts = [prompt for search in going_on for prompt in search.prompts]
                sampling_params = going_on[0].sampling_params
                outputs = iter(self.generate(prompts, sampling_params, use_progress=False))
                for search in going_on:
                    search.advance([next(outputs).outputs[0] for _ in search.beams])
        return [
            BeamSearchOutput(
                search.prompt_token_ids,
                [replace(beam, text=self._decode(beam.token_ids)) for beam in search.finished],
                search.error,
            )
            for search in searches
        ]

    def apply_chat_template(
        self, messages: Sequence[Message], **template_options: Any
    ) -> list[int]:
        """LLMEngine.apply_chat_template."""
        return self.engine.apply_chat_template(messages, **template_options)

    def default_sampling_params(self) -> SamplingParams:
        """LLMEngine.default_sampling_params."""
        return self.engine.default_sampling_params()

    def _one_each(
        self, sampling_params: SamplingParams | Sequence[SamplingParams] | None, num_prompts: int
    ) -> Sequence[SamplingParams]:
        return one_each(
            self.default_sampling_params() if sampling_params is None else sampling_params,
            num_prompts,
        )

    def _add(
        self,
        prompt: Prompt,
        sampling_params: SamplingParams,
        output_kind: str,
        request_ids: list[str],
        on_output: OnOutput | None = None,
    ) -> str:
        check_params("sampling_params", sampling_params, SamplingParams)
        params = replace(sampling_params, output_kind=output_kind)
        # noted before anything is done with it: whatever comes, the request will be dropped
        request_id = f"llm-{next(self._ids)}"
        request_ids.append(request_id)
        self._results[request_id] = None
        keep = partial(self._results.__setitem__, request_id)
        self.engine.add_request(request_id, prompt, params, on_output=on_output or keep)
        return request_id

    def _decode(self, token_ids: Sequence[int]) -> str:
        tokenizer = self.engine.tokenizer
        return (
            ""
            if tokenizer is None
            else str(tokenizer.decode(list(token_ids), skip_special_tokens=True))
        )

    @contextmanager
    def _serving(self, what: str) -> Iterator[tuple[list[str], Interrupts]]:
        """Around a call that steps: the ids that it notes are dropped at the end, whatever
        comes.
        """
        request_ids: list[str] = []
        self.engine.refuse_other_threads(what)
        with self.engine.lock, Interrupts() as interrupts:
            try:
                self._revive()
                yield request_ids, interrupts
            finally:
                interrupts.leave()
                self._drop(request_ids)

    def _drop(self, request_ids: Sequence[str]) -> None:
        """Stop waiting for requests; those that are not finished are aborted.

        A dead engine drops all that it has.
        """
        self._revive()
        for request_id in request_ids:
            self.engine.abort(request_id)
            self._results.pop(request_id, None)

    def _revive(self) -> None:
        """A dead engine begins again, without its requests."""
        if self.engine.core.is_dead:
            self.engine.reset()
            self._results.clear()

    def _step(self) -> None:
        """One step for all callers: a stream and a generate() in flight together each find their
        own output.
        """
        # another caller has ended them in the scheduler
        if not self.engine.core.has_unfinished_requests():
            for request_id in list(self._results):
                self.engine.abort(request_id)
            return
        self.engine.step()

    def _run(self, request_ids: Sequence[str], interrupts: Interrupts, use_progress: bool) -> None:
        waiting = set(request_ids)
        with Progress(console=Console(stderr=True), disable=not use_progress) as progress:
            task = progress.add_task("generating", total=len(waiting))
            while waiting:
                self._step()
                interrupts.check()
                finished = {
                    request_id for request_id in waiting if self._results[request_id] is not None
                }
                waiting -= finished
                progress.advance(task, len(finished))
