"""The connector of vLLM's recorded traces, scripted: what the other engine has, and what the workers report."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    """Tokens [start, end) of a request, all but those in `bad` blocks, which arrive after the step `due`."""

    request: Request
    start: int
    end: int
    due: int
    bad: list[int]
    is_async: bool
    fails_whole: bool


class ScriptedConnector(TransferConnector):
    """Answers as a trace's requests say, and writes down what it was asked. Its workers load by the same script."""

    def __init__(self, requests: Sequence[Record], role: str = "kv_both") -> None:
        self._role = role
        self._scripts = {spec["id"]: spec.get("kv") or {} for spec in requests}
        self._num_unknown = Counter({name: script.get("unknown", 0) for name, script in self._scripts.items()})
        self._num_loads: Counter[str] = Counter()
        self._num_local: dict[str, int] = {}
        self._now = 0  # the step that was decided last
        self._new: list[tuple[Request, Sequence[BlockTable], int]] = []  # loads of the step that is being decided
        self._loads: list[Load] = []  # that go on
        self._early: list[tuple[int, int]] = []  # steps, and blocks of which they report that they failed
        self._sending: list[tuple[int, str]] = []
        self._calls: list[list[Any]] = []
        self.reports: dict[int, TransferReport] = {}

    @property
    def requires_kv_delivery(self) -> bool:
        return self._role != "kv_consumer"

    def take_calls(self) -> list[list[Any]]:
        """What it was asked since the last time, as traces have it."""
        calls, self._calls = self._calls, []
        return calls

    # --- what the scheduler asks --------------------------------------------------------------------------------------

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> Match:
        name, script = request.request_id, self._scripts[request.request_id]
        if self._num_unknown[name] > 0:
            self._num_unknown[name] -= 1
            match = Match(None)
        else:
            is_async = script.get("mode") == "async"
            num_there = min(script.get("ext", 0), request.num_tokens - (not is_async))
            has_more = not (script.get("once") and self._num_loads[name])
            num_tokens = max(num_there - num_computed_tokens, 0) if has_more else 0
            match = Match(num_tokens, is_async and num_tokens > 0)
            self._num_local[name] = num_computed_tokens
        self._calls.append(["match", name, num_computed_tokens, *match])
        return match

    def update_state_after_alloc(
        self, request: Request, block_ids: Sequence[BlockTable], num_external_tokens: int
    ) -> None:
        name = request.request_id
        self._calls.append(["alloc", name, list(map(list, block_ids)), num_external_tokens])
        if num_external_tokens:
            self._num_loads[name] += 1
            self._new.append((request, block_ids, num_external_tokens))

    def build_connector_meta(self, num_scheduled_tokens: Mapping[str, int]) -> None:
        self._calls.append(["meta", sorted(num_scheduled_tokens)])

    def request_finished(self, request: Request, block_ids: Sequence[BlockTable]) -> bool:
        name, tables = request.request_id, list(map(list, block_ids))
        delay = self._scripts[name].get("send")
        is_kept = delay is not None and request.finish_reason in SENT
        self._calls.append(["finished", name, tables if len(tables) > 1 else tables[0], is_kept])
        if delay is not None and is_kept:
            self._sending.append((self._now + 1 + delay, name))
        return is_kept

    # --- the workers --------------------------------------------------------------------------------------------------

    def work(self, step: int) -> list[Load]:
        """Carry out what was decided for a step. Returns the loads that end, and keeps the report of it."""
        self._now = step
        for request, tables, num_tokens in self._new:
            self._begin(request, tables, num_tokens)
        self._new = []
        ended = [load for load in self._loads if load.due <= step]
        arrived = [load for load in ended if load.is_async]
        early = [[block_id] for due, block_id in self._early if due <= step]
        failed = [load.bad for load in ended if not load.is_async]
        late = [load.bad for load in arrived if not load.fails_whole]
        invalid: list[int] = []
        for block_ids in (*failed, *early, *late):
            invalid += [block_id for block_id in block_ids if block_id not in invalid]
        self.reports[step] = TransferReport(
            [load.request.request_id for load in arrived if load.fails_whole],
            invalid,
            [load.request.request_id for load in arrived],
            [name for due, name in self._sending if due <= step],
        )
        self._loads = [load for load in self._loads if load.due > step]
        self._early = [each for each in self._early if each[0] > step]
        self._sending = [each for each in self._sending if each[0] > step]
        return [load for load in ended if not load.fails_whole]

    def _begin(self, request: Request, tables: Sequence[BlockTable], num_tokens: int) -> None:
        name, script, step = request.request_id, self._scripts[request.request_id], self._now
        is_async, start = script.get("mode") == "async", self._num_local[name]
        fails = (script.get("fail") or ()) if self._num_loads[name] <= script.get("fail_times", 1) else ()
        bad = [tables[0][i] for i in fails if i < len(tables[0])] if len(tables) == 1 else []
        for after, i in script.get("fail_steps", ()):
            if i < len(tables[0]) and self._num_loads[name] == 1:
                self._early.append((step + after, tables[0][i]))
                bad.append(tables[0][i])
        due = step + script.get("delay", 1) if is_async else step
        fails_whole = bool(fails) and is_async and script.get("fail_req", False)
        self._loads.append(Load(request, start, start + num_tokens, due, bad, is_async, fails_whole))


def describe_report(report: TransferReport) -> Record:
    """As traces have it: what is empty is left out."""
    described = {
        "recv": report.finished_recving,
        "send": report.finished_sending,
        "invalid": report.invalid_block_ids,
        "failed": report.failed_recving,
    }
    return {name: list(value) for name, value in described.items() if value}


@dataclass(eq=False, repr=False, kw_only=True)
class RecordedTransfers(TransferKVCacheManager):
    """Each step that ends brings the report of its workers."""

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


def options_of_transfers(trace: Record, config: Record) -> Record:
    """The options of a trace as ours. Where vLLM reads what failed to load, its way with it is not followed."""
    connector = config["connector"]
    defers = bool(config.get("async_scheduling")) and connector.get("role", "kv_both") != "kv_producer"
    options = {"kv_load_failure_policy": connector["policy"], "defers_frees": defers}
    return config | options | {"keeps_failed_names": not trace.get("kv_violations")}
