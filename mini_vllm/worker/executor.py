"""Executor: where a step runs. In this process, in another one, or in one process for each rank of
a group.

The engine core knows no tensor: it hands a StepInput over and takes a StepOutput, both of which can
be pickled. Source: Executor in vllm/v1/executor/abstract.py (get_kv_cache_specs,
determine_available_memory, initialize_from_config, execute_model).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.step import ModelInfo, StepInput, StepOutput

if TYPE_CHECKING:
    from mini_vllm.config import EngineConfig
    from mini_vllm.worker.memory import KVCachePlan

# stands for a token that a step in flight samples, until the executor puts it in
PLACEHOLDER = -2


class Executor(ABC):
    """One model, somewhere.

    The engine calls load(), available_bytes(), allocate(), then execute() once a step.
    """

    def __init__(self, config: "EngineConfig") -> None:
        self.config = config

    @abstractmethod
    def load(self) -> ModelInfo:
        """Load the weights. Raises a CheckpointError, InvalidParameterError for a bad config."""

    @abstractmethod
    def available_bytes(self) -> int:
        """The memory budget of the KV cache beside the loaded weights: of several ranks the
        least.
        """

    @abstractmethod
    def allocate(self, plan: "KVCachePlan") -> None:
        """Make the KV cache."""

    @abstractmethod
    def execute(self, step: StepInput) -> "Future[StepOutput]":
        """Run a step.

        What the model raises, the future raises; steps run in the order in which they are given.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has done what it was asked to."""

    @abstractmethod
    def shutdown(self) -> None:
        """Give everything back. Steps that were not finished are lost."""


class InProcessExecutor(Executor):
    """A step has run when execute() returns; with async_scheduling it runs in a thread."""

    def __init__(self, config: "EngineConfig") -> None:
        super().__init__(config)
        self._thread = ThreadPoolExecutor(1, "steps") if config.async_scheduling else None
        self._last_token_ids: dict[str, int] = {}  # by request: what was sampled for it last

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        if self._thread is not None:
            return self._thread.submit(self._run_fed, step)
        future: Future[StepOutput] = Future()
        try:
            refuse_unknown_tokens(step)
            future.set_result(self.run(step))
        except Exception as error:
            future.set_exception(error)
        return future

    def _run_fed(self, step: StepInput) -> StepOutput:
        """Run a step that was decided before the tokens of the one before it were known."""
        refuse_unknown_tokens(step)
        last = self._last_token_ids
        if step.forget_all:
            last.clear()
        for request_id in step.finished_req_ids:
            last.pop(request_id, None)
        result = self.run(with_sampled(step, last))
        last |= {name: tokens[-1].token_id for name, tokens in result.tokens.items()}
        last |= dict.fromkeys(result.errors, 0)  # what is computed behind it is dropped
        return result

    @abstractmethod
    def run(self, step: StepInput) -> StepOutput:
        """The same, and what the model raises is raised."""

    def synchronize(self) -> None:
        """Nothing is under way."""

    def shutdown(self) -> None:
        """The memory goes with the object."""
        if self._thread is not None:
            self._thread.shutdown()


def with_sampled(step: StepInput, last_token_ids: Mapping[str, int]) -> StepInput:
    """The step with each placeholder, which is its chunk's last token, replaced by what was sampled
    for the request last.
    """
    if PLACEHOLDER not in step.token_ids:
        return step
    token_ids, end = list(step.token_ids), 0
    for request_id, n in zip(step.req_ids, step.num_scheduled_tokens, strict=True):
        end += n
        if token_ids[end - 1] == PLACEHOLDER:
            token_ids[end - 1] = last_token_ids[request_id]
    return replace(step, token_ids=tuple(token_ids))


def refuse_unknown_tokens(step: StepInput) -> None:
    """A scheduler of one's own may give a request more tokens than it has: their keys and values
    would be those of nothing.
    """
    num_scheduled, num_known = sum(step.num_scheduled_tokens), len(step.token_ids)
    if num_scheduled > num_known:
        raise InvalidParameterError(
            f"schedule() gave {num_scheduled} tokens to {shown(list(step.req_ids))}, but these "
            f"have only {num_known} that are known and not computed yet"
        )
