"""An engine core that goes on stepping while another engine waits for it.

A prompt is answered in the step that computes it, and its blocks go to main memory in the next one,
though no request may be left then. Source: has_finished_requests in SchedulerInterface
(vllm/v1/core/sched/interface.py), for which vLLM takes one more step.
"""

from mini_vllm.engine.core import EngineCore
from mini_vllm.offload.remote.connector import RemoteConnector
from mini_vllm.offload.tiers.manager import TieredKVCacheManager


class LendingCore(EngineCore):
    """Its connector may have work when no request is left."""

    def has_unfinished_requests(self) -> bool:
        kv = self.scheduler.kv_cache_manager
        assert isinstance(kv, TieredKVCacheManager)
        assert isinstance(kv.connector, RemoteConnector)
        return super().has_unfinished_requests() or kv.connector.has_work
