"""Engine cores for those outside: other engines that wait for blocks, and routers that hear which
blocks are cached.
"""

from contextlib import ExitStack

from mini_vllm.config import EngineConfig
from mini_vllm.engine.core import EngineCore


def for_others(
    core_cls: type[EngineCore], config: EngineConfig, at_the_end: ExitStack
) -> type[EngineCore]:
    """The core, with what the config asks for, and what of it is open until the end.

    Raises InvalidParameterError.
    """
    if config.kv_transfer_config is not None:
        from mini_vllm.engine.outside.lending import LendingCore

        core_cls = type(core_cls.__name__, (LendingCore, core_cls), {})
    if config.kv_events_config is not None:
        from mini_vllm.engine.outside.events import with_events
        from mini_vllm.engine.outside.publisher import KVEventsConfig, ZmqPublisher

        publisher = ZmqPublisher(KVEventsConfig(**config.kv_events_config))
        at_the_end.callback(publisher.close)
        core_cls = with_events(core_cls, publisher.publish)
    return core_cls
