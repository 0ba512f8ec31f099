"""RemoteGate: requests whose blocks another engine has, from their arrival to their end; and what
attaches gates to a scheduler.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from mini_vllm.errors import InvalidParameterError, RequestFailedError, shown
from mini_vllm.offload.remote.connector import RemoteConnector
from mini_vllm.offload.remote.options import KVTransferConfig
from mini_vllm.offload.tiers.manager import POLICIES, LoadGate, TieredKVCacheManager
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Part, SchedulerInterface, Step


class KVTransferError(RequestFailedError):
    """The blocks of a prompt have not come from the engine that computed them, and
    kv_load_failure_policy is "fail".
    """


class RemoteGate(Part):
    """Tells the connector which requests come and go, and ends those whose blocks do not come."""

    def __init__(self, kv: TieredKVCacheManager, connector: RemoteConnector) -> None:
        self.kv = kv
        self.connector = connector
        self._failed: dict[Request, KVTransferError] = {}

    def add(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if request.sampling_params.kv_transfer_params is not None:
                self.kv.get_computed_blocks(request)  # which names its blocks
                self.connector.expect(request)

    def may_admit(self, request: Request) -> bool:
        """Not if its blocks have not come, and it is not to be computed here."""
        why = self.connector.failures.get(request.request_id)
        if why is None:
            return True
        name = shown(request.request_id)
        text = f"request {name}: KVTransferError: the blocks of its prompt have not come: {why}"
        self._failed[request] = KVTransferError(text)
        return False

    def after_schedule(self, step: Step, scheduler: SchedulerInterface) -> None:
        for request in self._failed:
            step.output.blocked[request.request_id] = "kv_transfer"

    def before_update(self, step: Step, sampled_token_ids: Mapping[str, Sequence[int]]) -> None:
        for request, error in self._failed.items():
            step.end(request, error)

    def ended(self, request: Request) -> None:
        self._failed.pop(request, None)
        self.connector.forget(request)


class ClosedGate(Part):
    """Refuses requests with kv_transfer_params, which an engine without a role would not obey."""

    def add(self, requests: Sequence[Request]) -> None:
        for request in requests:
            if request.sampling_params.kv_transfer_params is not None:
                raise InvalidParameterError(
                    "kv_transfer_params needs an engine with a role: "
                    "kv_transfer_config, or --role of mini-vllm serve"
                )


def attach_gate(scheduler: SchedulerInterface) -> None:
    """Let requests wait for the tiers of the scheduler's KV cache manager, if it has some."""
    kv = scheduler.kv_cache_manager
    if isinstance(kv, TieredKVCacheManager):
        scheduler.attach(LoadGate(kv))
        if isinstance(kv.connector, RemoteConnector):
            scheduler.attach(RemoteGate(kv, kv.connector))
            return
    scheduler.attach(ClosedGate())


def wants_tiers(config: Any) -> bool:
    """Whether an EngineConfig asks for tiers.

    Raises InvalidParameterError for a tier without the one before it, or a wrong option of a role.
    """
    for name, before in (
        ("kv_offload_path", "kv_offload_bytes"),
        ("kv_offload_disk_bytes", "kv_offload_path"),
        ("kv_transfer_config", "kv_offload_bytes"),
    ):
        if getattr(config, name) is not None and getattr(config, before) is None:
            # the value is not shown: it may have a key
            raise InvalidParameterError(f"EngineConfig: {name} must be None without {before}")
    policy = config.kv_offload_policy
    config.require("kv_offload_policy", policy in POLICIES, " or ".join(map(repr, POLICIES)))
    if config.kv_transfer_config is not None:
        KVTransferConfig(**config.kv_transfer_config)
    return config.kv_offload_bytes is not None
