"""A KV cache manager with a second place: what a preempted request has computed is kept there, and
comes back.

The price of a preemption is then two copies of the KV cache instead of a second prefill. The
scheduler knows nothing of it: free() of a request that is preempted saves, get_computed_blocks()
counts what can be loaded, allocate_slots() asks for the load. PreemptionCost says which of the two
is cheaper: copying grows with the context, computing faster than that.

In one step copies go out first, then in, then the model runs: a block that a victim gives up may be
taken at once, and what is loaded may be shared at once. Nothing is trusted before end_step() has
said that the step went well. No request is preempted in the step that admits it, which the
schedulers of the family see to.

vLLM's V1 dropped swapping: "vLLM V1 no longer requires KV cache swapping to handle request
preemptions" (vLLM's docs/usage/v1_guide.md, github.com/vllm-project/vllm), as "recomputation has
lower overhead in the V1 architecture" (docs/configuration/optimization.md). V0 swapped groups of
sequences that share blocks, which V1 does not have, and recomputed the rest, because of the
"numerous small data transfers" of a swap (pull request 12). Main memory has returned as a second
level of the prefix cache, behind a KV connector. Source: _preempt_by_swap in vllm/core/scheduler.py
of V0; the paper's section 4.5 (arXiv 2309.06180); the connector's place in KVCacheManager and
Scheduler of vLLM V1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.errors import InvalidParameterError, shown
from mini_vllm.kv_cache import PART, KVCacheManager
from mini_vllm.offload.connector import KVConnector
from mini_vllm.offload.cost import PreemptionCost
from mini_vllm.offload.host_memory import HostMemoryConnector
from mini_vllm.request import Request
from mini_vllm.step import KVPlan, KVResult


class Load(NamedTuple):
    """Tokens [start, end) of a request, which the coming step brings in."""

    request: Request
    start: int
    end: int


@dataclass(eq=False, repr=False, kw_only=True)
class OffloadingKVCacheManager(KVCacheManager):
    """A KVCacheManager whose preempted requests are kept by a connector.

    The table of a request that is admitted again then reads, in tokens:

        [0, hit)        shared, found on the device
        [hit, loaded)   new blocks, loaded
        [loaded, ...)   to compute

    A request that a failed step preempts is computed again, unless it was just coming back. Raises
    InvalidParameterError for another mode, or a pool of less than 0 blocks.
    """

    modes: ClassVar[Sequence[str]] = ("swap", "cheaper")
    """What preemption_mode may be."""

    preemption_mode: str = "swap"
    """ "swap", or "cheaper" of swapping and computing again, for each victim."""
    num_cpu_blocks: int = 0
    """The size of the pool in main memory; a victim that does not fit in is computed again."""
    preemption_cost: Mapping[str, float] | None = None
    """The figures of PreemptionCost by name; None: its default."""
    connector: KVConnector = field(default=None, metadata=PART)  # type: ignore[assignment]
    """Another place than main memory; None: main memory."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.preemption_mode not in self.modes:
            raise InvalidParameterError(
                f"preemption_mode must be {' or '.join(map(repr, self.modes))} here, got "
                f"{shown(self.preemption_mode)}"
            )
        self.cost = PreemptionCost(**(self.preemption_cost or {}))
        self.connector = self.connector or HostMemoryConnector(self.num_cpu_blocks)
        self._loads: dict[str, Load] = {}  # of the coming step, by request

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        """The blocks of the longest cached prefix; how many tokens need no computing: theirs and
        the loadable ones.
        """
        hits, num_hit = super().get_computed_blocks(request)
        return hits, num_hit + self._num_loadable_tokens(request, num_hit)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, computed_blocks: Sequence[KVCacheBlock] = ()
    ) -> list[KVCacheBlock] | None:
        """On admission, what the connector has behind the computed blocks gets slots too, and is
        loaded there.
        """
        request_id = request.request_id
        if request_id in self._tables:  # it runs already
            return super().allocate_slots(request, num_new_tokens, computed_blocks)
        start = len(computed_blocks) * self.block_size
        end = start + self._num_loadable_tokens(request, start)
        new_blocks = super().allocate_slots(request, end - start + num_new_tokens, computed_blocks)
        if new_blocks is not None:
            block_ids = self.get_block_ids(request_id)[len(computed_blocks) : self._num_blocks(end)]
            self.connector.load(request, block_ids, len(computed_blocks))
            if start < end:
                self._loads[request_id] = Load(request, start, end)
        return new_blocks

    def free(self, request: Request) -> None:
        """Save what a preempted request has computed, if that is the cheaper way; what has ended is
        forgotten.
        """
        num_tokens = request.num_computed_tokens
        if request.is_finished:
            self.connector.request_finished(request)
        elif num_tokens and (
            self.preemption_mode == "swap" or self.cost.swap_is_cheaper(num_tokens)
        ):
            self.connector.save(request, self._blocks_of(request, num_tokens))
        super().free(request)

    def _blocks_of(self, request: Request, num_tokens: int) -> list[int]:
        """What keeps the first num_tokens tokens of a request."""
        return self.get_block_ids(request.request_id)[: self._num_blocks(num_tokens)]

    def num_external_tokens(self, request: Request) -> int:
        load = self._loads.get(request.request_id)
        return load.end - load.start if load else 0

    def is_ready(self, request: Request) -> bool:
        """Whether the request may be admitted.

        False: tokens of it are on their way to the connector.
        """
        _, num_hit = super().get_computed_blocks(request)
        return self.connector.get_num_new_matched_tokens(request, num_hit).is_ready

    def begin_step(self) -> KVPlan:
        super().begin_step()
        return self.connector.begin_step()

    def end_step(self, result: KVResult | None) -> None:
        """What a failed step was to load was published, and whether it arrived is unknown: no
        lookup may find it.
        """
        super().end_step(result)
        self.connector.end_step(result)
        if result is None:
            for load in self._loads.values():
                self._uncache(*load)
        self._loads.clear()

    def _uncache(self, request: Request, start: int, end: int) -> None:
        """No lookup finds tokens [start, end) of a request."""
        for block_hash in request.block_hashes[start // self.block_size : end // self.block_size]:
            self.block_pool.uncache_hash(block_hash)

    def exchange_notes(self, notes: Any) -> Any:
        loads, of_connector = notes or ({}, None)
        present = self._loads, self.connector.exchange_notes(of_connector)
        self._loads = loads
        return present

    def _num_loadable_tokens(self, request: Request, num_hit: int) -> int:
        num_tokens, is_ready = self.connector.get_num_new_matched_tokens(request, num_hit)
        return num_tokens if is_ready else 0

    def _num_blocks(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)
