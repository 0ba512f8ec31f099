"""The connector of vLLM's recorded traces, scripted: what the other engine has, and what the workers report."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.trace import Record
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.offload.transfer.connector import Match, TransferConnector, TransferReport
from mini_vllm.offload.transfer.groups import HybridTransferManager
from mini_vllm.offload.transfer.manager import TransferKVCacheManager
from mini_vllm.request import Request
from mini_vllm.step import BlockTable, KVResult

# how a request ends whose blocks another engine wants to read
SENT = ("stop", "length")


@dataclass(slots=True)
class Load:
    """Tokens [start, end) of a request, all but those in blocks that are reported invalid."""

    request: Request
    start: int
    end: int
    invalid: set[int] = field(default_factory=set)


class ScriptedConnector(TransferConnector):
    """Answers as a trace's requests say, and writes down what it was asked.

    calls: since they were taken, as traces have them. loads: those that go on, by request.
    """

    def __init__(self, requests: Sequence[Record], role: str = "kv_both") -> None:
        self._role = role
        self._scripts = {spec["id"]: spec.get("kv") or {} for spec in requests}
        self._num_unknown = Counter({name: script.get("unknown", 0) for name, script in self._scripts.items()})
        self._num_loads: Counter[str] = Counter()
        self._num_local: dict[str, int] = {}
        self.calls: list[list[Any]] = []
        self.loads: dict[str, Load] = {}

    @property
    def requires_kv_delivery(self) -> bool:
        return self._role != "kv_consumer"

    def take_calls(self) -> list[list[Any]]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls

    def take_loads(self, report: TransferReport) -> list["Load"]:
        """The loads that end with a step, and what of them is right."""
        for load in self.loads.values():
            load.invalid.update(report.invalid_block_ids)
        arrived = [name for name in self.loads if not self.is_async(name) or name in report.finished_recving]
        loads = {name: self.loads.pop(name) for name in arrived}
        return [load for name, load in loads.items() if name not in report.failed_recving]

    def is_async(self, name: str) -> bool:
        return bool(self._scripts[name].get("mode") == "async")

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Match:
        name, script = request.request_id, self._scripts[request.request_id]
        if self._num_unknown[name] > 0:
            self._num_unknown[name] -= 1
            match = Match(None)
        else:
            is_async = self.is_async(name)
            num_there = min(script.get("ext", 0), request.num_tokens - (not is_async))
            has_more = not (script.get("once") and self._num_loads[name])
            num_tokens = max(num_there - num_computed_tokens, 0) if has_more else 0
            match = Match(num_tokens, is_async and num_tokens > 0)
            self._num_local[name] = num_computed_tokens
        self.calls.append(["match", name, num_computed_tokens, *match])
        return match

    def update_state_after_alloc(
        self, request: Request, block_ids: Sequence[BlockTable], num_external_tokens: int
    ) -> None:
        name = request.request_id
        self.calls.append(["alloc", name, list(map(list, block_ids)), num_external_tokens])
        if num_external_tokens:
            self._num_loads[name] += 1
            start = self._num_local[name]
            self.loads[name] = Load(request, start, start + num_external_tokens)

    def build_connector_meta(self, num_scheduled_tokens: Mapping[str, int]) -> None:
        self.calls.append(["meta", sorted(num_scheduled_tokens)])

    def request_finished(self, request: Request, block_ids: Sequence[BlockTable]) -> bool:
        name, tables = request.request_id, list(map(list, block_ids))
        keeps = self._scripts[name].get("send") is not None and request.finish_reason in SENT
        self.calls.append(["finished", name, tables if len(tables) > 1 else tables[0], keeps])
        return keeps


def report_of(recorded: Record) -> TransferReport:
    """What the workers say with a step, which is an input."""
    kv = recorded.get("kv", {})
    return TransferReport(*(kv.get(name, ()) for name in ("failed", "invalid", "recv", "send")))


@dataclass(eq=False, repr=False, kw_only=True)
class RecordedTransfers(TransferKVCacheManager):
    """The reports are those of the trace."""

    make_report: ClassVar[Callable[[], TransferReport]]

    def end_step(self, result: KVResult | None) -> None:
        super().end_step(result and replace(result, connector=type(self).make_report()))


def transferring(
    base: type[KVCacheManager], connector: ScriptedConnector, make_report: Callable[[], TransferReport]
) -> type[TransferKVCacheManager]:
    """The KV cache manager `base` of a trace with such a connector."""
    bases: tuple[type[KVCacheManager], ...] = (RecordedTransfers,)
    if issubclass(base, HybridKVCacheManager):
        bases += (HybridTransferManager,)
    if base is not KVCacheManager:
        bases += (base,)
    parts = {"make_connector": staticmethod(lambda: connector), "make_report": staticmethod(make_report)}
    return dataclass(eq=False, repr=False, kw_only=True)(type(f"Transfer{base.__name__}", bases, parts))


def options_of_transfers(config: Record) -> Record:
    """The options of a trace as ours."""
    connector = config["connector"]
    defers = bool(config.get("async_scheduling")) and connector.get("role", "kv_both") != "kv_producer"
    return config | {"kv_load_failure_policy": connector["policy"], "defers_frees": defers}
