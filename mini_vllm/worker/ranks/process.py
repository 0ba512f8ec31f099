"""The process of a rank: the executor that one process would have, with a part of the model."""

from collections.abc import Mapping
from dataclasses import fields, replace
from multiprocessing.connection import Connection

import torch

from mini_vllm.config import EngineConfig
from mini_vllm.parallel.comm import GroupCommunicator
from mini_vllm.parallel.member import Rank, serve
from mini_vllm.parallel.shard import Shard
from mini_vllm.step import StepInput, StepOutput
from mini_vllm.worker.device import pick_device
from mini_vllm.worker.feed import DraftedOutput
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.ranks.runner import RankRunner


def rank_main(
    rank: Rank,
    pipe: Connection,
    config: EngineConfig,
    base: type[LocalExecutor],
    num_threads: int,
) -> None:
    """The process, from its first line to its last. num_threads: for its products."""
    torch.set_num_threads(num_threads)
    serve(rank, make_executor(rank, config, base), pipe)


def make_executor(rank: Rank, config: EngineConfig, base: type[LocalExecutor]) -> LocalExecutor:
    """An executor of class `base` whose ranks add up."""

    class RankExecutor(base):  # type: ignore[misc, valid-type]
        runner_cls = RankRunner

        def meet(self) -> None:
            """Wait for the other ranks."""
            communicator.meet()

        def execute_and_wait(self, step: StepInput, lengths: Mapping[str, int]) -> StepOutput:
            """A step; with the drafts behind it, where the parent's scheduler asks for them.

            lengths: by request, of the drafts that it asks for.
            """
            if config.speculative != "draft_model" or config.async_scheduling:
                return self.execute(step).result()  # type: ignore[no-any-return]
            for name in [*self._drafts] if step.forget_all else step.finished_req_ids:
                self._drafts.pop(name, None)
                self._lengths.pop(name, None)
            self._lengths |= lengths
            output = self.execute(step).result()
            drafts = {name: self._drafts.get(name, ()) for name in step.req_ids}
            rest = {each.name: getattr(output, each.name) for each in fields(output)}
            return DraftedOutput(**rest, drafts=drafts)

    if pick_device(config.device).type == "cuda":
        config = replace(config, device=f"cuda:{rank.rank}")
    communicator = GroupCommunicator(rank.rank, rank.size, rank.meeting, pick_device(config.device))
    executor: LocalExecutor = RankExecutor(config, Shard(rank.rank, rank.size, communicator))
    return executor
