"""Executor: where a step runs. In this process, in another one, or in one process for each rank of a group.

The engine core knows no tensor: it hands a StepInput over and takes a StepOutput, both of which can be pickled.
Source: Executor in vllm/v1/executor/abstract.py (get_kv_cache_specs, determine_available_memory,
initialize_from_config, execute_model).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future

from mini_vllm.config import EngineConfig
from mini_vllm.step import ModelInfo, SampledToken, StepInput, StepOutput
from mini_vllm.worker.memory import KVCachePlan


class Executor(ABC):
    """One model, somewhere. The engine calls load(), available_bytes(), allocate(), then execute() once a step."""

    def __init__(self, config: EngineConfig) -> None:
        self.config = config

    @abstractmethod
    def load(self) -> ModelInfo:
        """Load the weights. Raises a CheckpointError, InvalidParameterError for a bad config."""

    @abstractmethod
    def available_bytes(self) -> int:
        """The memory budget of the KV cache beside the loaded weights: of several ranks the least."""

    @abstractmethod
    def allocate(self, plan: KVCachePlan) -> None:
        """Make the KV cache."""

    @abstractmethod
    def execute(self, step: StepInput) -> "Future[StepOutput]":
        """Run a step. What the model raises, the future raises; steps run in the order in which they are given."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has done what it was asked to."""

    @abstractmethod
    def shutdown(self) -> None:
        """Give everything back. Steps that were not finished are lost."""


class InProcessExecutor(Executor):
    """A step has run when execute() returns."""

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        future: Future[StepOutput] = Future()
        try:
            future.set_result(self.run(step))
        except Exception as error:
            future.set_exception(error)
        return future

    @abstractmethod
    def run(self, step: StepInput) -> StepOutput:
        """The same, and what the model raises is raised."""

    def synchronize(self) -> None:
        """Nothing is under way."""

    def shutdown(self) -> None:
        """Nothing runs; the memory goes with the object."""


def accept(step: StepInput, sampled: Sequence[SampledToken | str]) -> StepOutput:
    """The tokens of each request: after right drafts as many as these, and one more. sampled [S]: a token or an error.

    The row behind a draft counts if the draft is the token that was sampled for its place. The noise depends on the
    place alone, so these are the tokens that the request would get one by one. An error behind a right draft is left to
    the next step, which meets it again.
    """
    tokens: dict[str, list[SampledToken]] = {}
    errors: dict[str, str] = {}
    done: set[str] = set()  # requests whose further rows follow a wrong draft
    for request_id, row, token in zip(step.sample_req_ids, step.sample_rows, sampled, strict=True):
        before = tokens.get(request_id)
        if request_id in done or (before and before[-1].token_id != step.token_ids[row]):
            done.add(request_id)
        elif isinstance(token, SampledToken):
            tokens.setdefault(request_id, []).append(token)
        else:
            done.add(request_id)
            if not before:
                errors[request_id] = token
    return StepOutput(tokens, errors=errors)
