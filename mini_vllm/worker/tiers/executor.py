"""TieringExecutor: a LocalExecutor that copies blocks to main memory and back, while io threads
read and write files.
"""

import json
import logging
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError, KVCacheTooLargeError
from mini_vllm.models.checkpoint import resolve_model
from mini_vllm.offload.tiers.connector import TierConnector
from mini_vllm.offload.tiers.disk import DiskTier
from mini_vllm.offload.tiers.policies.arc import TIERS
from mini_vllm.offload.tiers.work import Job, Name, TierPlan, TierResult
from mini_vllm.step import KVResult, StepInput, StepOutput
from mini_vllm.worker.cache_engine import lazy_zeros
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.memory import KVCachePlan, available_host_memory
from mini_vllm.worker.ranks.executor import MultiprocExecutor
from mini_vllm.worker.remote import with_remote
from mini_vllm.worker.tiers.block_folder import BlockFolder
from mini_vllm.worker.tiers.errands import Errands, Round

NUM_READERS = 4  # threads
MOST_WAITING = 64  # requests that may wait for a disk, even if fewer may run
# seconds that a step waits for io threads if it has nothing to compute
IDLE_WAIT = 0.005
MOSTLY_PROMPT = 8  # tokens of each request, on average


class Tiers(NamedTuple):
    """What one process has: blocks of main memory, the names of files, the least recently used
    first, and for how many there is room.
    """

    num_host_blocks: int
    names: Sequence[Name] | None
    num_disk_blocks: int
    where: str


logger = logging.getLogger("mini_vllm")


class TieringExecutor(LocalExecutor):
    """Owns the CPU blocks. A block lies there in one piece, over all layers, as in its file.

    In a step without requests run() waits a moment for the io threads, since nothing else is to be
    done. No other step waits for a disk.
    """

    clock = staticmethod(time.perf_counter)

    def allocate(self, plan: KVCachePlan) -> None:
        super().allocate(plan)
        self._plan, total = plan, self.config.kv_offload_bytes or 0
        size = total // self.shard.size
        num_blocks, free = size // plan.bytes_per_block, available_host_memory()
        self.config.require(
            "kv_offload_bytes",
            num_blocks > 0,
            f"at least {plan.bytes_per_block * self.shard.size}, one block",
        )
        if total > free:
            raise KVCacheTooLargeError(f"kv_offload_bytes {total:,}: {free:,} are free")
        layers = self.runner.cache_engine.kv_caches  # of one group: all groups share its memory
        shape = (num_blocks, len(layers), 2, *layers[0][0].shape[1:])
        self._blocks: Tensor = (
            torch.zeros(shape, dtype=self.dtype, pin_memory=True)
            if self.device.type == "cuda"
            else lazy_zeros(shape, dtype=self.dtype)
        )
        self._bytes = self._blocks.view(num_blocks, -1).view(torch.uint8).numpy()
        self._folder: BlockFolder | None = None
        if self.config.kv_offload_path is not None:
            self._folder = BlockFolder(self.config.kv_offload_path, self._layout(shape[1:]))
        self._readers = ThreadPoolExecutor(NUM_READERS, "kv-read")
        self._writer = ThreadPoolExecutor(1, "kv-write")
        self._errands = Errands("", self._submit)
        self._read_seconds: list[float] = []  # since a step has told them
        self._last_end = 0.0

    def _layout(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """All that the K and V of a text depend on. Weights go by the size and the time of their
        files: to read them all would take as long as to load them.
        """
        path, config = resolve_model(self.config.model), self.config
        groups = self._plan.layout.layer_groups
        files = {each.name: each.stat() for each in sorted(path.glob("*.safetensors"))}
        return {
            "model": str(path.resolve()),
            "config": json.loads((path / "config.json").read_text()),
            "weights": {name: [s.st_size, s.st_mtime_ns] for name, s in files.items()},
            "quantization": config.quantization,
            "rope": repr(getattr(self.hf_config, "rope_parameters", None)),
            "dtype": str(self.dtype),
            "device": self.device.type,
            "attention": self.attention_backend.name,
            "batch_invariant": config.batch_invariant,
            "block": shape,
            **({"rank": (self.shard.rank, self.shard.size)} if self.shard.size > 1 else {}),
            **({"groups": groups} if groups else {}),
        }

    def find_tiers(self) -> Tiers:
        """What the scheduler's half has to know."""
        plan, size, folder = self._plan, self.config.kv_offload_disk_bytes, self._folder
        if folder is None:
            return Tiers(len(self._blocks), None, 0, "no disk")
        names, per_block = folder.names(), plan.bytes_per_block
        if size is None:  # half of what is left there
            left = shutil.disk_usage(folder.path).free // 2 // self.shard.size
            num_blocks = left // per_block + len(names)
        else:
            num_blocks = size // self.shard.size // per_block
        return Tiers(len(self._blocks), names, num_blocks, str(folder.path))

    def make_connector(self) -> TierConnector:
        """The scheduler's half, which knows of all that is in the folder."""
        return connector_of(self.config, [self.find_tiers()], self.clock)

    def run(self, step: StepInput) -> StepOutput:
        asked, begun = self._move(step), self.clock()
        return self._with_ended(asked, step, begun, super().run(without_connector(step)))

    def launch(self, step: StepInput) -> Callable[[], StepOutput]:
        """The device copies and computes in the order in which it is told to."""
        if self.config.speculative:
            return super().launch(step)
        asked, begun = self._move(step), self.clock()
        collect = super().launch(without_connector(step))
        return lambda: self._with_ended(asked, step, begun, collect())

    def _move(self, step: StepInput) -> Round:
        work = step.kv.connector
        if not isinstance(work, TierPlan):
            return Round(self._errands)
        if work.owner != self._errands.owner:
            self._errands.wait()
            self._errands = Errands(work.owner, self._submit)
        asked = self._errands.begin(work)
        self._store(work)
        self._load(work)
        return asked

    def _with_ended(
        self, asked: Round, step: StepInput, begun: float, output: StepOutput
    ) -> StepOutput:
        """What came of a step, which jobs have ended on all ranks, and how long things took.

        A step with nothing to compute waits a moment. One of decodes says nothing of prompts.
        """
        now, num_tokens = self.clock(), sum(step.num_scheduled_tokens)
        compute = (num_tokens, now - max(begun, self._last_end))
        if num_tokens < MOSTLY_PROMPT * len(step.req_ids):
            compute = (0, 0.0)
        self._last_end = now
        seconds, self._read_seconds = self._read_seconds, []
        reads = (len(seconds), sum(seconds) / NUM_READERS)
        is_idle = bool(asked.oldest and not step.req_ids)
        done = asked.errands.take(asked.known, IDLE_WAIT if is_idle else 0.0)
        if self.shard.size > 1 and asked.oldest:
            said = [[number in done, done.get(number, False)] for number in asked.oldest]
            told = torch.tensor(said, dtype=torch.int32, device=self.device)
            summed = self.shard.communicator.all_reduce(told).tolist()
            counts, size = zip(asked.oldest, summed, strict=True), self.shard.size
            done = {number: well == size for number, (ended, well) in counts if ended == size}
        return replace(output, kv=KVResult(connector=TierResult(done, reads, compute)))

    def _submit(self, job: Job) -> "Future[bool]":
        folder = self._folder
        assert folder is not None, "there are no jobs without a disk"
        if job.kind == "delete":
            return self._writer.submit(folder.delete, job.name)
        block = memoryview(self._bytes[job.cpu_block])
        if job.kind == "read":
            return self._readers.submit(self._read, folder, job.name, block)
        return self._writer.submit(folder.write, job.name, block, job.evicted)

    def _read(self, folder: BlockFolder, name: Name, block: memoryview) -> bool:
        begun, is_right = self.clock(), folder.read(name, block)
        self._read_seconds.append(self.clock() - begun)
        return is_right

    def _store(self, work: TierPlan) -> None:
        if work.store:
            block_ids, cpu_blocks = map(torch.tensor, zip(*work.store, strict=True))
            for layer, caches in enumerate(self.runner.cache_engine.kv_caches):
                for half, cache in enumerate(caches):
                    on_cpu = cache[block_ids.to(self.device)].to("cpu")
                    self._blocks[cpu_blocks, layer, half] = on_cpu

    def _load(self, work: TierPlan) -> None:
        if work.load:
            cpu_blocks, block_ids = map(torch.tensor, zip(*work.load, strict=True))
            for layer, caches in enumerate(self.runner.cache_engine.kv_caches):
                for half, cache in enumerate(caches):
                    blocks = self._blocks[cpu_blocks, layer, half].to(self.device)
                    cache[block_ids.to(self.device)] = blocks

    def shutdown(self) -> None:
        """What is being written is written to its end."""
        super().shutdown()
        self._readers.shutdown()
        self._writer.shutdown()
        if self._folder is not None:
            self._folder.close()


def without_connector(step: StepInput) -> StepInput:
    """The step that is left when blocks have moved."""
    return replace(step, kv=replace(step.kv, connector=None))


def connector_of(
    config: EngineConfig, ranks: Sequence[Tiers], clock: Callable[[], float]
) -> TierConnector:
    """The scheduler's half for all ranks. Each has a part of every block, so a file counts if every
    rank has its own.
    """
    first, *others = ranks
    disk, where = None, "no disk"
    host = TIERS[config.kv_offload_policy](first.num_host_blocks)
    if first.names is not None:
        common = set(first.names).intersection(*(each.names or () for each in others))
        num_blocks = min(each.num_disk_blocks for each in ranks)
        disk = DiskTier([name for name in first.names if name in common], num_blocks)
        where = f"{len(disk)} of at most {num_blocks} in {first.where}"
    logger.info("KV offload: %d blocks in main memory; %s", host.num_blocks, where)
    most_waiting = max(config.max_num_seqs, MOST_WAITING)
    return TierConnector(config.block_size, host, disk, most_waiting, clock)


class TieringRanks(MultiprocExecutor):
    """Ranks with tiers. Each keeps its part of a block in its own memory, and in its own folder."""

    local_cls = TieringExecutor

    def make_connector(self) -> TierConnector:
        return connector_of(self.config, self.group.ask("find_tiers"), self.local_cls.clock)


def with_tiers(executor_cls: type[Executor], config: EngineConfig) -> type[Executor]:
    """The executor with tiers. Raises InvalidParameterError for what does not go together with
    them yet.
    """
    is_cut = issubclass(executor_cls, MultiprocExecutor)
    if not is_cut and not issubclass(executor_cls, LocalExecutor):
        raise InvalidParameterError(
            f"kv_offload_bytes needs LocalExecutor, got {executor_cls.__name__}"
        )
    for name, allowed in {
        "enable_prefix_caching": (True,),
        "preemption_mode": ("recompute", "swap"),
        "num_cpu_blocks": (None, 0),
        "speculative": (None, "ngram", "suffix"),
    }.items():
        words = " or ".join(map(repr, allowed))
        config.require(name, getattr(config, name) in allowed, f"{words} with kv_offload_bytes")
    if is_cut:
        if config.kv_transfer_config is not None:  # which is not shown: it may have a key
            raise InvalidParameterError("kv_transfer_config must be None with ranks")
        return TieringRanks
    return with_remote(TieringExecutor, executor_cls, config)
