"""The process of a rank: the executor that one process would have, with a part of the model."""

from dataclasses import replace
from multiprocessing.connection import Connection

import torch

from mini_vllm.config import EngineConfig
from mini_vllm.parallel.comm import GroupCommunicator
from mini_vllm.parallel.member import Rank, serve
from mini_vllm.parallel.shard import Shard
from mini_vllm.step import StepInput, StepOutput
from mini_vllm.worker.device import pick_device
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

        def execute_and_wait(self, step: StepInput) -> StepOutput:
            """A step, with what a step one ahead needs."""
            output: StepOutput = self.execute(step).result()
            return output

    config = config_of(rank, config)
    communicator = GroupCommunicator(rank.rank, rank.size, rank.meeting, pick_device(config.device))
    executor: LocalExecutor = RankExecutor(config, Shard(rank.rank, rank.size, communicator))
    return executor


def config_of(rank: Rank, config: EngineConfig) -> EngineConfig:
    """The configuration of one rank: a GPU of its own, or its share of main memory."""
    if config.speculative == "draft_model":  # its drafts then come with the tokens
        config = replace(config, async_scheduling=True)
    if pick_device(config.device).type == "cuda":
        return replace(config, device=f"cuda:{rank.rank}")
    return replace(config, gpu_memory_utilization=config.gpu_memory_utilization / rank.size)
