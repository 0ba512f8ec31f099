"""Front: the one way in for a request, whatever runs it.

LLMEngine adds what comes in to the core that it owns, AsyncEngine sends it to another process. What
a request must be is decided here for both, in the same order and with the same errors.
Source: add_request of vllm/v1/engine/llm_engine.py and of async_llm.py,
InputProcessor.process_inputs.
"""

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from mini_vllm.errors import DuplicateRequestError, UnknownParameterError, shown
from mini_vllm.frontend.output_processor import OnOutput, OutputProcessor
from mini_vllm.frontend.prompts import Prompt, check_params, check_request_id
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request

if TYPE_CHECKING:
    from mini_vllm.frontend.input_processor import InputProcessor

REQUEST_OPTIONS = ("priority", "arrival_time", "cache_salt", "client")


class Front:
    """Owns what reads requests, what makes their texts, and the seeds of those that bring none.

    seed: of the engine. clock: says when a request has arrived, in seconds.
    """

    def __init__(
        self, input_processor: "InputProcessor", seed: int, clock: Callable[[], float]
    ) -> None:
        self.input_processor = input_processor
        self.clock = clock
        self._seeds = random.Random(seed)
        self.forget_all()

    def forget_all(self) -> None:
        """Drop the texts of all requests, whose callers hear nothing more."""
        self.output_processor = OutputProcessor(self.input_processor.text_reader)

    def add_request(
        self,
        request_id: str,
        prompt: Prompt,
        sampling_params: SamplingParams,
        on_output: OnOutput | None,
        options: Mapping[str, Any],
        admit: Callable[[list[Request]], None] | None = None,
    ) -> list[Request]:
        """Check a request and register it. Returns its choices, for the core.

        n > 1 becomes n requests over the same prompt: the first computes it, the next ones find it
        in the prefix cache (vLLM V1's ParentRequest). options: priority, arrival_time, cache_salt.
        admit: gets the choices before they are registered, and may refuse them.

        Raises a RequestRefusedError, UnknownParameterError or InvalidParameterError. Then nothing
        has changed, and the request has taken no seed from those that follow.
        """
        seeds = self._seeds.getstate()
        try:
            requests = self._make_requests(request_id, prompt, sampling_params, options)
            for name in (request_id, *(request.request_id for request in requests)):
                if self.output_processor.has_request(name):
                    raise DuplicateRequestError(f"request {shown(name)} is still in flight")
            if admit is not None:
                admit(requests)
        except BaseException:
            self._seeds.setstate(seeds)
            raise
        text = prompt if isinstance(prompt, str) else None
        self.output_processor.add_request(request_id, text, requests, on_output)
        return requests

    def _make_requests(
        self, request_id: str, prompt: Prompt, params: SamplingParams, given: Mapping[str, Any]
    ) -> list[Request]:
        """The requests that compute the n choices of a prompt."""
        options = {"arrival_time": self.clock(), **given}
        for name in options:
            if name not in REQUEST_OPTIONS:
                known = ", ".join(REQUEST_OPTIONS)
                raise UnknownParameterError(f"unknown request option {shown(name)}; known: {known}")
        check_request_id(request_id)
        check_params("sampling_params", params, SamplingParams)
        token_ids = self.input_processor.read(request_id, prompt, params)
        options["eos_token_ids"] = self.input_processor.eos_token_ids
        if params.seed is None:
            params = params.changed(seed=self._seeds.getrandbits(64))
        if params.bad_words:
            bad = self.input_processor.tokenize_bad_words(params.bad_words)
            params = params.changed(bad_token_ids=params.bad_token_ids + bad)
        if params.structured is not None and params.ignore_eos:
            params = params.changed(ignore_eos=False)  # nothing can follow the end of a form
        # All of it is computed, so no cached block may serve: its salt never comes again.
        if params.prompt_logprobs is not None:
            options["cache_salt"] = f"{options.get('cache_salt') or ''}/{uuid4().hex}"
        arrival_time = options["arrival_time"]
        rest = params.changed(prompt_logprobs=None)  # the first choice tells them for all
        requests = []
        for i, name in enumerate(make_child_ids(request_id, params.n)):
            # Under the priority policy requests of one arrival time may preempt each other without
            # end.
            options["arrival_time"] = arrival_time + i * 1e-6 if i else arrival_time
            request = Request(name, token_ids, rest if i else params, choice_index=i, **options)
            requests.append(request)
        return requests


def make_child_ids(request_id: str, n: int) -> list[str]:
    """The ids of a request's choices; one choice is the request itself."""
    return [f"{index}_{request_id}" for index in range(n)] if n > 1 else [request_id]
