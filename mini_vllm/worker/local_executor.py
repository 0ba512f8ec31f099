"""LocalExecutor: the model in this process. Source: UniProcExecutor in
vllm/v1/executor/uniproc_executor.py.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar

import torch

from mini_vllm.attention import candidates, get_backend, why_not
from mini_vllm.config import EngineConfig
from mini_vllm.errors import KVCacheTooLargeError
from mini_vllm.models.checkpoint import load_hf_config, resolve_model
from mini_vllm.models.layers.int8_linear import why_slow
from mini_vllm.models.registry import load_model
from mini_vllm.parallel.shard import WHOLE, Shard
from mini_vllm.step import ModelInfo, StepInput, StepOutput
from mini_vllm.worker.device import available_bytes, free_memory, pick_device, pick_dtype
from mini_vllm.worker.executor import InProcessExecutor
from mini_vllm.worker.fit import Target, info_of
from mini_vllm.worker.memory import KVCachePlan, available_host_memory, for_length
from mini_vllm.worker.model_runner import ModelRunner
from mini_vllm.worker.products.batch_invariant import BatchInvariant


class LocalExecutor(InProcessExecutor):
    """The model in this process, or that part of it which is this rank's."""

    runner_cls: ClassVar[type[ModelRunner]] = ModelRunner
    runner: ModelRunner
    products: AbstractContextManager[Any]
    """In which the model computes."""

    def __init__(self, config: EngineConfig, shard: Shard = WHOLE) -> None:
        super().__init__(config)
        self.shard = shard

    @classmethod
    def with_defaults(cls, config: EngineConfig, may_run_ahead: bool) -> EngineConfig:
        """On a GPU steps are recorded, and decided one step ahead."""
        if pick_device(config.device).type == "cpu":
            return config
        ahead = config.async_scheduling
        return replace(
            config,
            async_scheduling=may_run_ahead if ahead is None else ahead,
            cudagraph_mode=config.cudagraph_mode or "full_and_piecewise",
        )

    def load(self) -> ModelInfo:
        config, path = self.config, resolve_model(self.config.model)
        self.hf_config = for_length(load_hf_config(path), config.max_model_len)
        self.device = pick_device(config.device)
        self.dtype = pick_dtype(config.dtype, self.hf_config, path)
        self.attention_backend = get_backend(
            config.attention_backend,
            self.device,
            self.dtype,
            batch_invariant=config.batch_invariant,
        )
        self.products = nullcontext()
        if self.device.type == "cuda":  # kernels are launched on the current device of a thread
            torch.cuda.set_device(self.device)
            self.products = torch.cuda.device(self.device)
        if config.batch_invariant:
            backend, mode = self.attention_backend.name, config.cudagraph_mode or "none"
            chosen = config.quantization, backend, mode, self.device.type
            config.require(
                "batch_invariant",
                {*chosen} <= {None, "c", "triton", "none", "cpu"},
                f"False with quantization, attention_backend, cudagraph_mode, device {chosen}: it "
                "needs None, 'c' or the interpreted 'triton', 'none' and 'cpu'",
            )
            self.products = BatchInvariant()
        self.model = load_model(
            path,
            self.hf_config,
            dtype=self.dtype,
            device=self.device,
            shard=self.shard,
            quantization=config.quantization,
            accept=Target(config, self.hf_config, path, self.device, self.attention_backend).accept,
        )
        if config.batch_invariant:
            from mini_vllm.models.moe.rungs import fix_sums

            fix_sums(self.model)
        return info_of(self.model)

    def available_bytes(self) -> int:
        return available_bytes(self.config, self.hf_config, self.dtype, self.device)

    def allocate(self, plan: KVCachePlan) -> None:
        """Make the KV cache.

        Raises KVCacheTooLargeError if the device or main memory does not have so many bytes.
        """
        plan.check(
            free_memory(self.device), available_host_memory(), is_shared=self.device.type == "cpu"
        )
        try:
            self.runner = self.runner_cls(
                self.model,
                self.attention_backend,
                num_blocks=plan.num_blocks,
                block_size=plan.block_size,
                dtype=self.dtype,
                device=self.device,
                num_cpu_blocks=plan.num_cpu_blocks,
                layer_groups=plan.layout.layer_groups,
            )
        except (RuntimeError, MemoryError) as error:  # torch knows no class of its own for it
            raise KVCacheTooLargeError(
                f"{plan.num_blocks} blocks of {plan.bytes_per_block} bytes on {self.device} and "
                f"{plan.num_cpu_blocks} in main memory cannot be had (num_kv_blocks, "
                f"num_cpu_blocks, block_size): {str(error)[:200]}"
            ) from error

    def run(self, step: StepInput) -> StepOutput:
        with self.products:
            return self.runner.execute(step)

    def launch(self, step: StepInput) -> Callable[[], StepOutput]:
        """The device keeps the tokens that the next step begins with.

        Drafts are made of tokens that the host knows.
        """
        if self.config.speculative:
            return super().launch(step)
        with self.products:
            return self.runner.launch(step)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def __str__(self) -> str:
        name = candidates(self.device)[0]
        is_auto = self.config.attention_backend == "auto"
        reason = is_auto and why_not(name, self.device, self.dtype)
        slower = f" (not {name}, which is faster: {reason})" if reason else ""
        kind = self.model.quantization
        slow = kind == "int8" and why_slow(self.device)
        weights = f", {kind} weights" if kind else ""
        weights += (
            f" (slow: {slow})"
            if slow
            else f" (dequantised to {self.dtype})"
            if kind == "float8"
            else ""
        )
        return (
            f"{self.dtype} on {self.device}{weights}, attention "
            f"{self.attention_backend.name}{slower}"
        )
