"""The executor whose model is compiled."""

from collections.abc import Callable
from typing import Any, ClassVar

from mini_vllm.errors import InvalidParameterError
from mini_vllm.models.layers.linear import is_packed
from mini_vllm.parallel.shard import WHOLE
from mini_vllm.step import ModelInfo
from mini_vllm.worker.compiled.model import CompiledModel
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.local_executor import LocalExecutor


class CompiledExecutor(LocalExecutor):
    """A LocalExecutor that compiles its model when it has loaded it.

    Raises InvalidParameterError for what the compiler cannot look into: packed or quantised
    weights, a part of a model, and, on a CPU, recordings of operators.
    """

    compile_backend: ClassVar[str | Callable[..., Any]] = "inductor"

    def load(self) -> ModelInfo:
        info, config, is_cpu = super().load(), self.config, self.device.type == "cpu"
        for holds, why in (
            (self.model.quantization is None, f"quantization {self.model.quantization}"),
            (not is_packed(self.device, self.dtype), f"{self.dtype} on a CPU"),
            (self.shard is WHOLE, "a part of a model"),
            (not config.batch_invariant, "batch_invariant"),
            (not is_cpu or config.cudagraph_mode in (None, "none"), "cudagraph_mode on a CPU"),
        ):
            config.require("enforce_eager", holds, f"True with {why}")
        compiled = CompiledModel(self.model, self.compile_backend)
        compiled.compile(self.device)
        self.model = compiled  # type: ignore[assignment]  # it has all that the model has
        return info


def with_compiled(executor_cls: type[Executor]) -> type[Executor]:
    """The executor with a compiled model. Raises InvalidParameterError for one that is no
    LocalExecutor.
    """
    if not issubclass(executor_cls, LocalExecutor):
        raise InvalidParameterError(
            f"enforce_eager=False needs LocalExecutor, got {executor_cls.__name__}"
        )
    if issubclass(executor_cls, CompiledExecutor):
        return executor_cls
    if issubclass(CompiledExecutor, executor_cls):
        return CompiledExecutor
    return type(executor_cls.__name__, (CompiledExecutor, executor_cls), {})
