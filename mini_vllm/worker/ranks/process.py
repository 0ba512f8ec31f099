"""The process of a rank: the executor that one process would have, with a part of the model."""

from collections.abc import Mapping
from dataclasses import fields, replace
from multiprocessing.connection import Connection
from typing import Any

import torch
from torch import nn

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
    shard: Shard,
    num_threads: int,
) -> None:
    """The process, from its first line to its last. num_threads: for its products."""
    torch.set_num_threads(num_threads)
    serve(rank, make_executor(rank, config, base, shard), pipe)


def make_executor(
    rank: Rank, config: EngineConfig, base: type[LocalExecutor], shard: Shard
) -> LocalExecutor:
    """An executor of class `base` whose ranks add up. shard: of rank 0."""

    class RankExecutor(base):  # type: ignore[misc, valid-type]
        runner_cls = RankRunner

        def join(self) -> None:
            """The process is here, and has its end of the ring."""

        def meet(self) -> None:
            """Wait for the other ranks."""
            communicator.meet()

        def expert_loads(self) -> dict[int, list[int]]:
            """By layer, by expert: the pairs of a token and a choice that it got."""
            return {layer.layer: layer.loads.tolist() for layer in spread_layers(self.model)}

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
    executor: LocalExecutor = RankExecutor(
        config, replace(shard, rank=rank.rank, communicator=communicator)
    )
    return executor


def spread_layers(model: nn.Module) -> list[Any]:
    """The parts of a model whose experts are spread over the ranks: ExpertParallel, which a model
    without experts does not import.
    """
    return [each for each in model.modules() if hasattr(each, "expert_map")]
