"""Blocks of another engine, the worker's half: a server that lends them, and threads that pull."""

from mini_vllm.config import EngineConfig
from mini_vllm.worker.local_executor import LocalExecutor


def with_remote(tiering_cls: type[LocalExecutor], config: EngineConfig) -> type[LocalExecutor]:
    """The executor of tiers, or the one that also lends and pulls."""
    if config.kv_transfer_config is None:
        return tiering_cls
    from mini_vllm.worker.remote.executor import RemoteExecutor

    return RemoteExecutor
