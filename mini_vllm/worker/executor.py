"""Executor: where a step runs. In this process, in another one, or in one process for each rank of
a group.

The engine core knows no tensor: it hands a StepInput over and takes a StepOutput, both of which can
be pickled. Source: Executor in vllm/v1/executor/abstract.py (get_kv_cache_specs,
determine_available_memory, initialize_from_config, execute_model).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING

from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.step import ModelInfo, StepInput, StepOutput

if TYPE_CHECKING:
    from mini_vllm.config import EngineConfig
    from mini_vllm.spec_decode.proposers import Proposer
    from mini_vllm.worker.feed import Feed
    from mini_vllm.worker.memory import KVCachePlan


class Executor(ABC):
    """One model, somewhere.

    The engine calls load(), available_bytes(), allocate(), then execute() once a step.
    """

    def __init__(self, config: "EngineConfig") -> None:
        self.config = config

    @classmethod
    def with_defaults(cls, config: "EngineConfig", may_run_ahead: bool) -> "EngineConfig":
        """The config with what pays on this device where it says None. may_run_ahead: whether the
        scheduler can decide a step before the one before it has ended.
        """
        return config

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

    def wait_for(self, pipe: Connection) -> None:
        """Wait until there is something to read, between steps. Raises ExecutorLostError if what
        computes the steps is gone meanwhile.
        """
        wait([pipe])

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until the device has done what it was asked to."""

    def drain(self) -> None:  # noqa: B027  # most wait for nobody
        """The engine ends, and shutdown() follows: what comes from elsewhere is not waited for."""

    @abstractmethod
    def shutdown(self) -> None:
        """Give everything back. Steps that were not finished are lost."""


class InProcessExecutor(Executor):
    """A step has run when execute() returns; with async_scheduling one thread begins steps, and
    another one waits for what came of them."""

    def __init__(self, config: "EngineConfig") -> None:
        super().__init__(config)
        self._thread = self._reader = None
        if config.async_scheduling:
            self._thread, self._reader = (ThreadPoolExecutor(1, name) for name in ("steps", "read"))
        self.feed = self._make_feed()
        self._lost: set[str] = set()  # requests of a step that failed: its news did not arrive

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        if self._thread and self._reader:
            begun = self._thread.submit(self._begin, step)
            return self._reader.submit(lambda: begun.result()())
        future: Future[StepOutput] = Future()
        try:
            refuse_unknown_tokens(step)
            future.set_result(self.run(step))
        except Exception as error:
            future.set_exception(error)
        return future

    def _begin(self, step: StepInput) -> Callable[[], StepOutput]:
        """Begin a step that was decided before the tokens of the one before it were known."""
        refuse_unknown_tokens(step)
        lost = self._lost
        lost.difference_update([*lost] if step.forget_all else step.new_rows)
        if not lost.isdisjoint(step.req_ids):  # it would write into blocks that are not its own
            raise RuntimeError("the step before it, which has some of its requests, has failed")
        lost.update(step.req_ids)
        collect = self.launch(step)
        lost.difference_update(step.req_ids)
        return collect

    def launch(self, step: StepInput) -> Callable[[], StepOutput]:
        """Begin a step, which may have placeholders. What is returned waits for what came of it.

        Here the step has ended by then. An executor whose device keeps the tokens returns earlier.
        """
        step = self.feed.fill(step)
        result = self.feed.take_in(step, self.run(step))
        return lambda: result

    def _make_feed(self) -> "Feed":
        from mini_vllm.worker.feed import DraftingFeed, Feed

        config = self.config
        proposer = self._make_proposer() if config.speculative else None
        return DraftingFeed(proposer, config.num_speculative_tokens) if proposer else Feed()

    def _make_proposer(self) -> "Proposer":
        """What drafts here, one step ahead."""
        from mini_vllm.spec_decode.proposers import LastNgramProposer, NgramProposer

        config = self.config
        cls = NgramProposer if config.prompt_lookup_match == "first" else LastNgramProposer
        return cls(config.prompt_lookup_min, config.prompt_lookup_max)

    @abstractmethod
    def run(self, step: StepInput) -> StepOutput:
        """The same, and what the model raises is raised."""

    def synchronize(self) -> None:
        """Nothing is under way."""

    def shutdown(self) -> None:
        """The memory goes with the object."""
        for thread in (self._thread, self._reader):
            if thread:
                thread.shutdown()


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
