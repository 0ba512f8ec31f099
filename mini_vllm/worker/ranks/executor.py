"""MultiprocExecutor: a model that is cut among several processes, as the engine calls it.

Source: vllm/v1/executor/multiproc_executor.py.
"""

import logging
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import ClassVar

import torch

from mini_vllm.config import EngineConfig
from mini_vllm.errors import ExecutorLostError, InvalidParameterError, shown
from mini_vllm.models.checkpoint import load_hf_config, resolve_model
from mini_vllm.models.registry import META, load_model
from mini_vllm.parallel.experts.shard import ExpertShard, shard_of, write_loads
from mini_vllm.parallel.group import RankGroup
from mini_vllm.request import Request
from mini_vllm.step import ModelInfo, StepInput, StepOutput
from mini_vllm.worker.device import pick_device
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.feed import DraftedOutput
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.memory import KVCachePlan, available_host_memory
from mini_vllm.worker.ranks.process import rank_main, spread_layers

logger = logging.getLogger("mini_vllm")


class MultiprocExecutor(Executor):
    """A process for each rank; with a draft model it is the proposer of the scheduler here.

    Raises InvalidParameterError for an option that ranks cannot have, and ExecutorLostError when
    they have ended.
    """

    local_cls: ClassVar[type[LocalExecutor]] = LocalExecutor
    """What runs in each process."""

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self._drafts: dict[str, Sequence[int]] = {}
        self._lengths: dict[str, int] = {}  # of drafts that were asked for since the last step
        self.device = device = pick_device(config.device)
        size = config.tensor_parallel_size
        config.require("batch_invariant", not config.batch_invariant, f"False with {size} ranks")
        if device.type == "cuda":
            config.require("device", device.index is None, f"'cuda' with {size} ranks")
            found = torch.cuda.device_count()
            config.require("tensor_parallel_size", size <= found, f"at most {found}, the GPUs here")
        self._shard: ExpertShard | None = None  # of ranks that count what each expert gets

    def load(self) -> ModelInfo:
        """Start the ranks, which load their parts. What they cannot load is refused before."""
        config, path, shard = self.config, resolve_model(self.config.model), shard_of(self.config)
        outline = load_model(
            path,
            load_hf_config(path),
            dtype=torch.float32,
            device=META,
            shard=shard,
            quantization=config.quantization,
        )
        config.require(
            "enable_expert_parallel",
            config.enable_expert_parallel == (spread_layers(outline) != []),
            f"False: {shown(config.model)} has no experts that can be spread",
        )
        with tempfile.TemporaryDirectory() as folder:
            meeting, size = str(Path(folder, "meeting")), config.tensor_parallel_size
            num_threads = max(1, torch.get_num_threads() // size)
            self.group = RankGroup(
                size, meeting, rank_main, config, self.local_cls, shard, num_threads
            )
            try:
                try:
                    self.group.ask("join")
                finally:
                    self.group.unlink()
                info: ModelInfo = self.group.ask("load")[0]
                self.group.ask("meet")
            except BaseException:  # Ctrl-C, too
                self.shutdown()
                raise
        self._name = str(self.group.ask("__str__")[0])
        self._shard = shard if isinstance(shard, ExpertShard) else None
        return info

    def available_bytes(self) -> int:
        return int(min(self.group.ask("available_bytes")))

    def allocate(self, plan: KVCachePlan) -> None:
        """Raises KVCacheTooLargeError if main memory has no room for what all ranks take of it."""
        if self.device.type == "cpu":
            of_all = plan.bytes_per_block * self.config.tensor_parallel_size
            free = available_host_memory()
            replace(plan, bytes_per_block=of_all).check(free, free, is_shared=True)
        self.group.ask("allocate", plan)

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        for name in step.req_ids:
            self._drafts.pop(name, None)
        lengths, self._lengths = self._lengths, {}
        future = self.group.run(step, lengths)
        if self.config.speculative == "draft_model":
            future.add_done_callback(self._take_drafts)
        return future

    def _take_drafts(self, future: "Future[StepOutput]") -> None:
        if future.exception() is None and isinstance(result := future.result(), DraftedOutput):
            self._drafts |= result.drafts

    def wait_for(self, pipe: Connection) -> None:
        if pipe not in wait([pipe, self.group.ended]):
            self.synchronize()  # which raises why

    def synchronize(self) -> None:
        self.group.ask("synchronize")

    def expert_loads(self) -> dict[int, list[int]]:
        """By layer, by expert: how often a token has chosen it. {} without expert parallelism."""
        return dict(self.group.ask("expert_loads")[0]) if self._shard else {}

    def shutdown(self) -> None:
        try:
            self._save_loads()
        finally:
            self.group.close()

    def _save_loads(self) -> None:
        """Say what the experts got, and write it down for the next start."""
        if self._shard is None or self.group.ended.poll():
            return
        file = self.config.expert_loads
        try:
            loads = self.expert_loads()
            if not any(map(any, loads.values())):
                return
            placed = replace(self._shard, loads=loads)
            logger.info(
                "experts: balancedness %.2f; placed by these loads, %.2f",
                self._shard.balancedness(loads),
                placed.balancedness(loads),
            )
            if file is not None:
                write_loads(Path(file), loads)
        except (ExecutorLostError, OSError) as error:
            logger.warning("expert_loads %s is not written: %s", shown(file), error)

    def propose(self, request: Request, num_tokens: int) -> Sequence[int]:
        """What rank 0 has drafted behind the request's last token."""
        self._lengths[request.request_id] = num_tokens
        return self._drafts.get(request.request_id, ())[:num_tokens]

    def forget(self, request: Request) -> None:
        """The request has ended."""
        self._drafts.pop(request.request_id, None)
        self._lengths.pop(request.request_id, None)

    def __str__(self) -> str:
        return f"{self._name}, cut among {self.config.tensor_parallel_size} processes"


def with_ranks(executor_cls: type[Executor]) -> type[Executor]:
    """The executor in each of several processes. Raises InvalidParameterError for one that is no
    LocalExecutor.
    """
    if not issubclass(executor_cls, LocalExecutor):
        raise InvalidParameterError(
            f"tensor_parallel_size needs LocalExecutor, got {executor_cls.__name__}"
        )
    return type("MultiprocExecutor", (MultiprocExecutor,), {"local_cls": executor_cls})
