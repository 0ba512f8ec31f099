"""The model runner that replays what it has recorded, and the executor that owns one."""

import logging
from typing import Any

import torch
from torch import Tensor

from mini_vllm.errors import InvalidParameterError
from mini_vllm.step import StepInput
from mini_vllm.worker.device import on_device, send
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.graphs.batch import GraphBatch
from mini_vllm.worker.graphs.graphs import GraphLimits, Graphs
from mini_vllm.worker.graphs.modes import CUDAGraphMode
from mini_vllm.worker.input_batch import PackedStep
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.memory import KVCachePlan
from mini_vllm.worker.model_runner import Collect, ModelRunner

logger = logging.getLogger("mini_vllm")


class GraphRunner(ModelRunner):
    """Steps that a recording serves are replayed; the other ones run as before.

    A step is packed on the host, so that what is replayed goes to the device in one upload.
    """

    graphs: Graphs
    batch: GraphBatch

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.batch = GraphBatch(
            self.block_size, torch.device("cpu"), self.batch.num_groups, self.device
        )
        self.num_replays = 0

    def record(self, mode: CUDAGraphMode, limits: GraphLimits) -> None:
        """Record every key of the mode. Called once, before the first step."""
        self.graphs = Graphs(
            mode,
            self.model,
            self.attention_backend,
            self.kv_caches,
            self.layer_groups,
            limits,
            self.device,
        )
        self.graphs.capture()

    def _forward(self, packed: PackedStep) -> Tensor:
        graph = self.graphs.can_use(packed, self.batch)
        if graph is None or graph.breaking is not None:
            self.graphs.sync(self.batch)
        if graph is None:
            self.sample_rows = send(packed.sample_rows, self.device)
            on = [on_device(each, self.device) for each in packed.metadata]
            ids = send(packed.input_ids, self.device)
            return super()._forward(packed._replace(input_ids=ids, metadata=on))
        self.graphs.pad(graph, packed, self.batch)
        self._feed(packed, graph.buffers.device["input_ids"])
        self.sample_rows = graph.buffers.device["sample_rows"][: len(packed.sample_rows)]
        self.num_replays += 1
        return self.graphs.replay(graph)[: len(packed.input_ids)]

    def _sample_from(self, step: StepInput, packed: PackedStep, hidden: Tensor) -> Collect:
        """The sample rows are on the device already."""
        return super()._sample_from(step, packed._replace(sample_rows=self.sample_rows), hidden)


class GraphExecutor(LocalExecutor):
    """A LocalExecutor whose runner replays what it has recorded."""

    runner_cls = GraphRunner
    runner: GraphRunner

    def allocate(self, plan: KVCachePlan) -> None:
        super().allocate(plan)
        config = self.config
        limits = GraphLimits(
            config.max_num_seqs,
            config.max_num_batched_tokens,
            plan.max_model_len,
            plan.block_size,
            1 + (config.num_speculative_tokens if config.speculative else 0),
        )
        asked = CUDAGraphMode[str(config.cudagraph_mode).upper()]
        self.runner.record(asked, limits)
        graphs = self.runner.graphs
        backend = f"the attention back end {self.attention_backend.name} is {graphs.support.name}"
        lowered = "" if graphs.mode is asked else f" (not {asked.name}: {backend})"
        logger.info("recorded %d graphs, %s%s", len(graphs.graphs), graphs.mode.name, lowered)

    def shutdown(self) -> None:
        super().shutdown()
        self.runner.graphs.destroy()


def with_graphs(executor_cls: type[Executor]) -> type[Executor]:
    """The executor with recorded forwards. Raises InvalidParameterError for one that is no
    LocalExecutor.
    """
    if not issubclass(executor_cls, LocalExecutor):
        raise InvalidParameterError(
            f"cudagraph_mode needs LocalExecutor, got {executor_cls.__name__}"
        )
    if issubclass(GraphExecutor, executor_cls):
        return GraphExecutor
    return type(executor_cls.__name__, (GraphExecutor, executor_cls), {})
