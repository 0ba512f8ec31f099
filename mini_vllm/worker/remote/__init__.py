"""Blocks of another engine, the worker's half: a server that lends them, and threads that pull."""

from mini_vllm.config import EngineConfig
from mini_vllm.worker.executor import Executor


def with_remote(
    tiering_cls: type[Executor], executor_cls: type[Executor], config: EngineConfig
) -> type[Executor]:
    """The executor with tiers, which it also lends or pulls if the engine has a role."""
    if config.kv_transfer_config is not None:
        from mini_vllm.worker.remote.executor import RemoteExecutor

        tiering_cls = RemoteExecutor
    if issubclass(tiering_cls, executor_cls):
        return tiering_cls
    return type(executor_cls.__name__, (tiering_cls, executor_cls), {})
