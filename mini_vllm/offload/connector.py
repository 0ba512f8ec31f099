"""KVConnector: how a KV cache manager reaches a second place for K and V: main memory, a disk,
another engine.

This is the side of the scheduler: names and numbers only. What the worker has to copy goes into the
KVPlan of the step, and what came of it comes back in the KVResult. Source: KVConnectorBase_V1 in
vllm/distributed/kv_transfer/kv_connector/v1/base.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from mini_vllm.request import Request
from mini_vllm.step import KVPlan, KVResult

# why a request is blocked: its K and V arrive later. vLLM: WAITING_FOR_REMOTE_KVS
REMOTE_KV = "remote_kv"


class Lookup(NamedTuple):
    """What a connector has of a request: so many tokens behind those that are on the device.

    is_ready: False if they arrive later. The request is then passed over, until a KVResult names
    it.
    """

    num_tokens: int
    is_ready: bool = True


class KVConnector(ABC):
    """One step reads: lookups, loads and saves; begin_step(); the worker copies and computes;
    end_step().

    Copies out are made before copies in: a block that is saved may be taken by another request in
    the same step.
    """

    @abstractmethod
    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Lookup:
        """How many tokens it has behind the first num_computed_tokens.

        At least one token is left to compute.

        It may be asked in every step and for every waiting request. A connector that has to fetch
        the tokens from afar begins to do so when it is asked for the first time; otherwise nothing
        changes.
        """

    @abstractmethod
    def load(self, request: Request, block_ids: Sequence[int], start: int) -> None:
        """Fill block_ids, which are the blocks from `start` on of the request's table, in the
        coming step.

        It is called for every request that is admitted, also with no block to fill. vLLM:
        update_state_after_alloc.
        """

    @abstractmethod
    def save(self, request: Request, block_ids: Sequence[int]) -> None:
        """Keep the K and V of the request's computed tokens, which are in block_ids; they are freed
        after this call.
        """

    @abstractmethod
    def request_finished(self, request: Request) -> None:
        """The request will not come back: nothing is kept or saved for it.

        Its load is made: it may be shared.
        """

    @abstractmethod
    def begin_step(self) -> KVPlan:
        """What the worker has to copy in the coming step. vLLM: build_connector_meta."""

    @abstractmethod
    def end_step(self, result: KVResult | None) -> None:
        """The step has ended; None: it failed, and what was copied is unknown. vLLM:
        update_connector_output.
        """

    def exchange_notes(self, notes: Any) -> Any:
        """As KVCacheManager.exchange_notes(): what the step that has begun needs at its end, for
        that of another.
        """
        return None
