"""KV events: which blocks the prefix cache has gained and lost, so that a router can send a prompt
to the engine that has most of it.

The core looks at the block tables of a step when it is decided: a block with a new name was stored,
and the name that it had before was removed. The name that is published is the sha256 of a block's
tokens and of all before them, whatever hash_function says. Source: vllm/distributed/kv_events.py,
cache_full_blocks and _maybe_evict_cached_block in vllm/v1/core/block_pool.py.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

from mini_vllm.block_hash import sha256_block_hash
from mini_vllm.engine.core import EngineCore
from mini_vllm.errors import InvalidParameterError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput, Step
from mini_vllm.step import StepOutput, TokenDelta
from mini_vllm.worker.executor import Executor


class BlockStored(NamedTuple):
    """Blocks that follow each other in one prompt. token_ids: of all of them, end to end."""

    block_hashes: list[bytes]
    parent_block_hash: bytes | None
    token_ids: list[int]
    block_size: int


class BlockRemoved(NamedTuple):
    """Blocks that no lookup finds any longer."""

    block_hashes: list[bytes]


class AllBlocksCleared(NamedTuple):
    """The cache is empty."""


KVEvent = BlockStored | BlockRemoved | AllBlocksCleared
Publish = Callable[[list[KVEvent]], None]


class CacheWatch:
    """What was told of one KV cache, and what is new. A step costs as much as it has new blocks."""

    def __init__(self, kv: KVCacheManager) -> None:
        self._kv = kv
        self._told: dict[Hashable, bytes] = {}  # what can be found, and how it was told
        self._by_block: dict[int, Hashable] = {}  # the name of a block when it was looked at last
        self._digests: dict[str, list[bytes]] = {}  # by request, of its first blocks

    def decided(self, output: SchedulerOutput) -> list[KVEvent]:
        """What a step evicts and stores. Call it before the step ends."""
        evicted: list[Hashable] = []
        stored: list[KVEvent] = []
        for request in output.scheduled_requests:
            stored += self._look_at(request, evicted)
        if output.preempted_req_ids:  # blocks that were taken for them may be free again
            self.gone(output.preempted_req_ids)
            evicted = [*self._told]
        return [*self._removed(evicted), *stored]

    def gone(self, request_ids: Iterable[str]) -> None:
        """These requests have no block tables any longer."""
        for name in request_ids:
            self._digests.pop(name, None)

    def audit(self) -> list[KVEvent]:
        """What can no longer be found, for whatever reason."""
        return self._removed([*self._told])

    def _look_at(self, request: Request, evicted: list[Hashable]) -> list[BlockStored]:
        """Runs of blocks of the request that have got a name since the last look."""
        digests = self._digests.setdefault(request.request_id, [])
        (tail,) = self._kv.get_block_tables(request.request_id, (len(digests),))
        found: list[BlockStored] = []
        is_run = False
        for block_id in tail:
            name = self._kv.block_pool.blocks[block_id].block_hash
            before = self._by_block.pop(block_id, None)
            if before is not None and before != name:
                evicted.append(before)
            if name is None:  # it is not full, and has none behind it that is
                continue
            self._by_block[block_id] = name
            parent, size = digests[-1] if digests else None, self._kv.block_size
            token_ids = request.all_token_ids[len(digests) * size : (len(digests) + 1) * size]
            digests.append(self._digest(name, parent, token_ids, request.cache_salt))
            if name in self._told:
                is_run = False
                continue
            self._told[name] = digests[-1]
            if not is_run:
                found.append(BlockStored([], parent, [], size))
            is_run = True
            found[-1].block_hashes.append(digests[-1])
            found[-1].token_ids.extend(token_ids)
        return found

    def _digest(
        self, name: Hashable, parent: bytes | None, token_ids: Sequence[int], salt: str | None
    ) -> bytes:
        if isinstance(name, bytes):  # hash_function is sha256
            return name
        known = self._told.get(name)
        return known or sha256_block_hash(parent, tuple(token_ids), None if parent else salt)

    def _removed(self, names: Iterable[Hashable]) -> list[KVEvent]:
        pool = self._kv.block_pool
        lost = [
            digest
            for name in dict.fromkeys(names)
            if pool.get_cached_block(name) is None
            and (digest := self._told.pop(name, None)) is not None
        ]
        return [BlockRemoved(lost)] if lost else []


class TellingCore(EngineCore):
    """Publishes what the prefix cache of its scheduler gains and loses."""

    def __init__(self, scheduler: SchedulerInterface, executor: Executor) -> None:
        super().__init__(scheduler, executor)
        kv = scheduler.kv_cache_manager
        if len(kv.get_num_blocks("")) > 1:
            raise InvalidParameterError("kv_events_config needs a model with one group of layers")
        self._watch = CacheWatch(kv)
        self.publish([AllBlocksCleared()])

    def finish(self, request_ids: Iterable[str], reason: str) -> None:
        names = [*request_ids]
        super().finish(names, reason)
        self._watch.gone(names)

    def begin_step(self) -> Step:
        step = super().begin_step()
        self._publish(self._watch.decided(step.output))
        return step

    def finish_step(self, step: Step, result: StepOutput) -> list[TokenDelta]:
        deltas = super().finish_step(step, result)
        self._watch.gone(each.request_id for each in step.requests if each.is_finished)
        if step.errors:
            self._publish(self._watch.audit())
        return deltas

    def fail_step(self, step: Step, error: Exception) -> list[TokenDelta]:
        deltas = super().fail_step(step, error)
        self._watch.gone(each.request_id for each in step.requests)
        self._publish(self._watch.audit())
        return deltas

    @staticmethod
    def publish(events: list[KVEvent]) -> None:
        """Where they go: with_events() says it."""
        raise NotImplementedError

    def _publish(self, events: list[KVEvent]) -> None:
        if events:
            self.publish(events)


def with_events(core_cls: type[EngineCore], publish: Publish) -> type[EngineCore]:
    """The core, which publishes."""
    return type(core_cls.__name__, (TellingCore, core_cls), {"publish": staticmethod(publish)})
