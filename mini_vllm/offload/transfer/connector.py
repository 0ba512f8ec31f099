"""TransferConnector: what the scheduler asks of a link to another engine, and what its workers
report.

Source: KVConnectorBase_V1 in vllm/distributed/kv_transfer/kv_connector/v1/base.py,
KVConnectorOutput in vllm/v1/outputs.py.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mini_vllm.errors import MiniVllmError
from mini_vllm.request import Request
from mini_vllm.step import BlockTable


class KVTransferError(MiniVllmError, RuntimeError):
    """A report that cannot be followed: the engine stops, since it would go on with wrong K and
    V.
    """


class Match(NamedTuple):
    """What the other engine has of a request behind the tokens that are here.

    num_tokens: None if that is not known yet; the request is then passed over. is_async: whether
    the load goes on beside the steps. A load that is not async is over before the step computes,
    and leaves it a token at least.
    """

    num_tokens: int | None
    is_async: bool = False


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What the workers of one step say of transfers. They come in KVResult.connector."""

    failed_recving: Sequence[str] = ()
    """Requests of which nothing has arrived. They are in finished_recving, too."""
    invalid_block_ids: Sequence[int] = ()
    """Blocks that do not have what was to be loaded into them."""
    finished_recving: Sequence[str] = ()
    """Requests whose async load has ended, well or not."""
    finished_sending: Sequence[str] = ()
    """Requests that have ended, and whose blocks nobody reads any more."""


class TransferConnector(ABC):
    """The side of the scheduler."""

    @property
    def requires_kv_delivery(self) -> bool:
        """Whether another engine reads the blocks of requests that have ended.

        A request that is preempted then samples again what is in flight: it must not end without
        blocks.
        """
        return False

    @abstractmethod
    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Match:
        """What there is behind the first num_computed_tokens tokens. Changes nothing.

        A waiting request is asked about in each step until it is admitted.
        """

    @abstractmethod
    def update_state_after_alloc(
        self, request: Request, block_ids: Sequence[BlockTable], num_external_tokens: int
    ) -> None:
        """The request has its blocks, by group of layers; so many tokens are to be loaded."""

    @abstractmethod
    def build_connector_meta(self, num_scheduled_tokens: Mapping[str, int]) -> Any:
        """What the workers have to do with the coming step; None: nothing.

        If that step fails, its loads are promised again, in other blocks: a worker that has begun
        one ends it before the next step begins, and does not report it.
        """

    @abstractmethod
    def request_finished(self, request: Request, block_ids: Sequence[BlockTable]) -> bool:
        """The request has ended, with its computed tokens in these blocks.

        Returns whether they must stay until a report has it in finished_sending.
        """
