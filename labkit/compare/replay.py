"""Recorded runs of vLLM and nano-vllm, replayed: the same inputs to our classes, and the first decision that differs.

Two forms of a trace are read. Schema 1 is that of traces/, vLLM's and nano-vllm's (traces/README.md). Schema 2 has one
list of block ids per KV cache group, names the features in use, and records what is random about a run as inputs. A
trace of a feature that is not here is never equal: unsupported() says which feature it is. A shadow of every slot
watches each replay for stale reads. Labs, tests and tools use this module.
"""

import json
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Unpack

from labkit.compare.replay_groups import RecordedGroups, has_groups, with_kinds
from labkit.compare.replay_transfers import (
    Load,
    ScriptedConnector,
    describe_report,
    options_of_transfers,
    transferring,
)
from mini_vllm.block_pool import KVCacheBlock
from mini_vllm.errors import GrammarError, MiniVllmError
from mini_vllm.kv_cache import KVCacheManager
from mini_vllm.observe.trace import Record, ScenarioRun, TraceRecorder
from mini_vllm.offload.connector import REMOTE_KV
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.offload.transfer.connector import TransferReport
from mini_vllm.offload.transfer.scheduler import TransferScheduler, with_transfers
from mini_vllm.params import StructuredOutputs
from mini_vllm.policies.registry import Classes
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler, SchedulerInterface, SchedulerOutput
from mini_vllm.scheduler_interface import Step
from mini_vllm.spec_decode.kv_cache import KVCacheManager as LookaheadManager
from mini_vllm.spec_decode.scheduler import SpeculativeScheduler
from mini_vllm.structured.scheduler import GrammarGate, NewGrammar

STEP_FIELDS = (  # what is compared of a step, in order of time
    *("step", "aborted_before", "sched", "spec", "preempted", "new", "resumed", "blocks", "waiting", "blocked"),
    *("holding", "nulls", "free_sched", "placeholders", "deferred", "processed", "spec_checked", "bitmask", "sampled"),
    *("kv", "aborted_during", "finished", "free", "cached", "computed", "calls"),
)
ONLY_SCHEMA_2 = frozenset(  # of these
    "nulls spec blocked holding placeholders deferred processed spec_checked bitmask sampled kv computed calls".split()
)
CONFIG_FIELDS = frozenset(
    "block_size num_blocks max_num_seqs max_num_batched_tokens long_prefill_token_threshold enable_chunked_prefill "
    "enable_prefix_caching policy max_model_len scheduler_reserve_full_isl watermark vocab_size eos_token_id "
    "scheduler nano_vllm "  # of those recorded from nano-vllm
    "hash_block_size groups retention spec async_scheduling connector".split()  # the last line: schema 2
)
REQUEST_FIELDS = frozenset(
    "id arrival_step arrival_time prompt max_tokens priority ignore_eos sample_seed "
    "stop_token_ids accept grammar kv".split()  # schema 2; accept says how often a draft is right
)
MOST_EXTRA_STEPS = 1000  # of a run that is not compared, and may take longer than vLLM's
NOT_REPLAYED = "not replayed: "  # how the verdict on a trace begins whose features are not here
WIDTH = 120  # characters shown of a value that differs


class BrokenTraceError(MiniVllmError, ValueError):
    """A file of recorded traces cannot be read, or holds something else."""


# --- files ----------------------------------------------------------------------------------------------------------


def find_trace_files(path: Path) -> list[Path]:
    """The file itself, or what may hold traces in a folder and below it, in order of name."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.suffix in (".json", ".jsonl") and file.is_file())


def read_traces(path: Path) -> list[Record]:
    """The traces of a file: one (.json), or one a line (.jsonl); none if nothing in it looks like a trace.

    Raises BrokenTraceError, which names the file, for one that cannot be read, or in which a trace lacks what every
    trace has.
    """
    try:
        text = path.read_text(encoding="utf-8")
        documents = [line for line in text.split("\n") if line.strip()] if path.suffix == ".jsonl" else [text]
        found = [json.loads(document) for document in documents]
    except (OSError, ValueError, RecursionError) as error:
        raise BrokenTraceError(f"{path}: {type(error).__name__}: {error}") from error
    if not any(isinstance(trace, dict) and trace.keys() & {"requests", "steps"} for trace in found):
        return []
    for number, trace in enumerate(found, start=1):
        for name, kind in (("name", str), ("config", dict), ("requests", list), ("steps", list)):
            if not isinstance(trace, dict) or not isinstance(trace.get(name), kind):
                raise BrokenTraceError(f"{path}: trace {number} has no {name}")
    return found


# --- what is recorded, and what of it can be replayed ---------------------------------------------------------------


def unsupported(trace: Record) -> str | None:
    """The features that the trace needs and that are not here, by name; None if it can be replayed."""
    return ", ".join(list(_missing_features(trace)) or _unknown_fields(trace)) or None


def _missing_features(trace: Record) -> Iterator[str]:
    """A feature that comes to mini_vllm loses its lines here, and its fields get theirs in STEP_FIELDS."""
    config, schema = trace["config"], trace.get("schema", 1)
    if schema not in (1, 2):
        yield f"a form of traces not known here (schema {schema})"
    if not has_groups(config) and config.get("hash_block_size", config["block_size"]) != config["block_size"]:
        yield "hashes of parts of a block (hash_block_size)"
    if config.get("connector") is None and any(request.get("kv") is not None for request in trace["requests"]):
        yield "KV from outside without a connector (kv of a request)"
    for name in ("raises", "hangs"):
        if trace.get(name):
            yield f"a run that vLLM did not finish ({name})"


def _unknown_fields(trace: Record) -> Iterator[str]:
    """What is recorded under a name that is not compared must not pass for equal."""
    if unknown := trace["config"].keys() - CONFIG_FIELDS:
        yield f"options not known here ({', '.join(sorted(unknown))})"
    if unknown := set().union(*trace["requests"]) - REQUEST_FIELDS:
        yield f"fields of a request not known here ({', '.join(sorted(unknown))})"
    if unknown := set().union(*trace["steps"]) - {"cached", "drafts", *_compared_fields(trace)}:
        yield f"fields of a step not known here ({', '.join(sorted(unknown))})"


def _compared_fields(trace: Record) -> list[str]:
    left_out = set() if trace.get("schema", 1) == 2 else set(ONLY_SCHEMA_2)
    if not trace["config"].get("enable_prefix_caching", True):
        left_out.add("cached")
    return [name for name in STEP_FIELDS if name not in left_out]


def comparable(record: Record, schema: int) -> Record:
    """A step's record in one form, that of schema 2: block ids per KV cache group, and nothing that is empty."""
    blocks = record.get("blocks", {})
    if schema == 1:
        blocks = {request_id: [block_ids] for request_id, block_ids in blocks.items()}
    return {name: value for name, value in (record | {"blocks": blocks}).items() if value not in ([], {})}


# --- the replay -----------------------------------------------------------------------------------------------------


class SlotShadow:
    """Remembers for every slot which tokens, up to and with its own, were last computed there."""

    def __init__(self) -> None:
        self._content: dict[tuple[int, int], int] = {}  # (block id, offset) -> hash of the prefix

    def load(self, kv: KVCacheManager, load: Load) -> None:
        """Write what a connector brings."""
        contents = self._contents(load.request.all_token_ids[: load.end])
        for group, (size, _, table) in enumerate(tables_of_groups(kv, load.request)):
            for position in range(load.start, load.end):
                block_id = table[position // size]
                is_right = block_id not in load.bad
                self._content[block_id, position % size] = hash((group, contents[position])) if is_right else 0

    def _contents(self, token_ids: Sequence[int]) -> list[int]:
        return list(accumulate(token_ids, lambda *pair: hash(pair), initial=0))[1:]

    def stale_read(self, kv: KVCacheManager, output: SchedulerOutput, invalid: Collection[int] = ()) -> str | None:
        """Write the slots of a step, then read: says which request reads a slot that does not hold its own prefix.

        invalid: blocks whose load failed. A request that has one does the step again, or ends.
        """
        slots_read = []
        for request in output.scheduled_requests:  # all of a step's writes come before its reads
            num_blocks = -(-request.num_computed_tokens // kv.block_size)
            if not {*invalid}.isdisjoint(kv.get_block_ids(request.request_id)[:num_blocks]):
                continue
            start = request.num_computed_tokens
            end = start + output.num_scheduled_tokens[request.request_id]
            known = [*request.all_token_ids, *output.drafts.get(request.request_id, ())]
            contents = self._contents(known[:end])
            for group, (size, first, table) in enumerate(tables_of_groups(kv, request)):
                for position in range(first, end):
                    slot = (table[position // size], position % size)
                    content = hash((group, contents[position]))
                    slots_read.append((request.request_id, position, slot, content))
                    if position >= start:
                        self._content[slot] = content
        for request_id, position, slot, content in slots_read:
            if self._content.get(slot) != content:
                return f"stale read: {request_id} finds another prefix at position {position}, in slot {slot}"
        return None


def tables_of_groups(kv: KVCacheManager, request: Request) -> Iterator[tuple[int, int, Sequence[int]]]:
    """Of each group the block size, the first position that a token to compute sees, and the block table."""
    tables = kv.get_block_tables(request.request_id)
    if not isinstance(kv, HybridKVCacheManager):
        yield kv.block_size, 0, tables[0]
        return
    for kind, table in zip(kv.groups, tables, strict=True):
        yield kind.block_size, kind.num_skipped_tokens(request.num_computed_tokens), table


class RecordedGrammar:
    """The grammar that stands in for a real one in the traces. Its mask is its state: how many tokens it has taken.

    In state n it takes a token t iff n < length and (t + 3 n + shift) mod modulus is not 0.
    """

    def __init__(self, shift: int, modulus: int, length: int) -> None:
        self._shift, self._modulus, self._length, self._state = shift, modulus, length, 0

    @property
    def is_terminated(self) -> bool:
        return self._state >= self._length

    def mask(self) -> int:
        return self._state

    def accept(self, token_id: int) -> bool:
        is_allowed = not self.is_terminated and (token_id + 3 * self._state + self._shift) % self._modulus != 0
        self._state += is_allowed
        return is_allowed

    def rollback(self, num_tokens: int) -> None:
        self._state -= num_tokens


class GrammarOfStep(Future[NewGrammar]):
    """Compiled from a step on, or failed. recorded: as a trace has it."""

    def __init__(self, recorded: Record, now: Callable[[], int]) -> None:
        super().__init__()
        self._recorded, self._now = recorded, now

    def done(self) -> bool:
        return self._now() >= int(self._recorded["ready_step"])

    def result(self, timeout: float | None = None) -> NewGrammar:
        if error := self._recorded.get("error"):
            raise GrammarError(error)
        return partial(RecordedGrammar, *(self._recorded[name] for name in ("shift", "modulus", "length")))


class RecordedGrammars:
    """Where a replay's requests get their grammars from: each has its record as text."""

    idle_seconds = 0.0

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now

    def compile(self, wanted: StructuredOutputs, cache_salt: str | None = None) -> "Future[NewGrammar]":
        return GrammarOfStep(json.loads(wanted.key[1]), self._now)


@dataclass(eq=False, repr=False, kw_only=True)
class EagleKVCacheManager(LookaheadManager):
    """The prefix cache of a target whose draft head reads the target's own hidden states (EAGLE).

    The head's K and V at a place depend on the token behind it, so a block is known by one token more than it holds;
    or, with eagle_block_drop, blocks have plain hashes, and the last block that is found is not used. Only traces have
    such a head. Source: get_request_block_hasher in vllm/v1/core/kv_cache_utils.py (num_hash_lookahead_tokens),
    the argument drop_eagle_block of vllm/v1/core/single_type_kv_cache_manager.py.
    """

    eagle_block_drop: bool = False

    def get_computed_blocks(self, request: Request) -> tuple[list[KVCacheBlock], int]:
        hits, _ = super().get_computed_blocks(request)
        if self.eagle_block_drop:
            hits = hits[:-1]
        return hits, len(hits) * self.block_size

    def free(self, request: Request) -> None:
        """A request that ends with the token that names its last block publishes it before the blocks go."""
        if request.is_finished and request.status is not RequestStatus.FINISHED_ABORTED and request.output_token_ids:
            self.cache_blocks(request)
        super().free(request)

    def _block_hashes(self, request: Request) -> list[Hashable]:
        if self.eagle_block_drop:
            return super()._block_hashes(request)
        hashes, size = request.block_hashes, self.block_size
        for i in range(len(hashes), (request.num_tokens - 1) // size):
            parent = hashes[-1] if hashes else None
            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size + 1])
            hashes.append(self._hash_block(parent, token_ids, None if hashes else request.cache_salt))
        return hashes


class EagleScheduler(SpeculativeScheduler):
    """Publishes after each step, since a block has a name when the token behind it is known."""

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        finished = super().update_from_output(output, sampled_token_ids)
        for request in output.scheduled_requests:
            if request.status is RequestStatus.RUNNING and sampled_token_ids.get(request.request_id):
                self.kv_cache_manager.cache_blocks(request)
        return finished


class TablesByGroup(TraceRecorder):
    """Records block tables by group of layers, as schema 2 does, and how many null blocks are in them."""

    def before_schedule(self) -> None:
        super().before_schedule()
        kv = self.scheduler.kv_cache_manager
        self._num_held = {each.request_id: kv.get_num_blocks(each.request_id) for each in self.scheduler.running}

    def after_schedule(self, step: Step, number: int | None = None, **extra: Any) -> Record:
        record = super().after_schedule(step, number, **extra)
        blocks, nulls = {}, {}
        for request in step.output.scheduled_requests:
            request_id = request.request_id
            tables = [list(table) for table in self.scheduler.kv_cache_manager.get_block_tables(request_id)]
            num_held = self._num_held.get(request_id)
            new = [table[n:] for table, n in zip(tables, num_held or [0] * len(tables), strict=True)]
            if num_held is None or any(new):
                blocks[request_id] = new
            if any(num_nulls := [table.count(0) for table in tables]):
                nulls[request_id] = num_nulls
        record.update(blocks=blocks, nulls=nulls)
        return record


class ReplayRecorder(TablesByGroup):
    """Records what schema 2 has beside schema 1, and keeps the shadow."""

    def __init__(self, scheduler: SchedulerInterface) -> None:
        super().__init__(scheduler)
        self.shadow = SlotShadow()
        self.stale_read: str | None = None  # in the last step
        self.connector: ScriptedConnector | None = None

    def after_schedule(self, step: Step, number: int | None = None, **extra: Any) -> Record:
        output, kv = step.output, self.scheduler.kv_cache_manager
        invalid: Sequence[int] = ()
        if self.connector is not None and number is not None:
            for load in self.connector.work(number):
                self.shadow.load(kv, load)
            report = self.connector.reports[number]
            invalid, extra["kv"] = report.invalid_block_ids, describe_report(report)
        self.stale_read = self.shadow.stale_read(kv, output, invalid)
        extra["bitmask"] = describe_masks(self.scheduler, output)
        return super().after_schedule(step, number, **describe_queues(self.scheduler, output), **extra)

    def after_update(self, *args: Any, **extra: Any) -> Record:
        """Here `computed` counts after the update, for all of running."""
        computed = {request.request_id: request.num_computed_tokens for request in self.scheduler.running}
        return super().after_update(*args, **extra, computed=computed)


def describe_queues(scheduler: SchedulerInterface, output: SchedulerOutput) -> Record:
    """What requests wait for, and which of those that wait hold blocks."""
    blocked = {name: why for name, why in output.blocked.items() if why in ("grammar", REMOTE_KV)}
    holding = scheduler.holding if isinstance(scheduler, TransferScheduler) else ()
    return {"blocked": blocked, "holding": [request.request_id for request in holding]}


def describe_masks(scheduler: SchedulerInterface, output: SchedulerOutput) -> Record:
    """The masks of a step as traces have them; {} without any."""
    if not output.masks:
        return {}
    rows = list(output.masks.values())
    num_rows = len(rows) * (1 + getattr(scheduler, "num_speculative_tokens", 0))
    acceptable = [sum(draft >= 0 for draft in output.drafts.get(name, ())) for name in output.masks]
    return {"ids": list(output.masks), "rows": rows, "num_rows": num_rows, "acceptable": acceptable}


def scheduler_cls_of(trace: Record) -> type[SpeculativeScheduler]:
    """The scheduler of a trace with drafts."""
    return EagleScheduler if trace["config"]["spec"]["method"] == "eagle" else SpeculativeScheduler


class ReplayRun(ScenarioRun):
    """Runs the scenario of a trace beside its record.

    A trace with kv_violations is not followed: vLLM itself read a stale slot there, so that other decisions are
    needed. The tokens must be the same all the same.
    """

    def __init__(self, trace: Record, **classes: Unpack[Classes]) -> None:
        scenario = trace
        if (spec := trace["config"].get("spec")) is not None:
            named = {"speculative": spec["method"], "num_speculative_tokens": spec["k"]}
            scenario = trace | {"config": trace["config"] | named | {"eagle_block_drop": spec["eagle_block_drop"]}}
            classes["scheduler_cls"] = classes.get("scheduler_cls") or scheduler_cls_of(trace)
            manager_cls = EagleKVCacheManager if spec["method"] == "eagle" else LookaheadManager
            classes["kv_cache_manager_cls"] = classes.get("kv_cache_manager_cls") or manager_cls
        if has_groups(trace["config"]):
            scenario = scenario | {"config": with_kinds(scenario["config"])}
            classes["kv_cache_manager_cls"] = RecordedGroups
        self.connector: ScriptedConnector | None = None
        if connector := trace["config"].get("connector"):
            self.connector = ScriptedConnector(trace["requests"], connector.get("role", "kv_both"))
            scenario = scenario | {"config": options_of_transfers(trace, scenario["config"])}
            recorded_cls = classes.get("kv_cache_manager_cls") or KVCacheManager
            classes["kv_cache_manager_cls"] = transferring(recorded_cls, self.connector, self._report)
            classes["scheduler_cls"] = with_transfers(classes.get("scheduler_cls") or Scheduler)
        super().__init__(scenario, **classes)
        if isinstance(self.scheduler, SpeculativeScheduler):
            self.scheduler.proposer = None
        self.gate: GrammarGate | None = None
        if any(request.get("grammar") for request in trace["requests"]):
            self.gate = GrammarGate(RecordedGrammars(lambda: self.step))
            self.scheduler.attach(self.gate)
        self.trace = trace
        self.original = trace.get("recorded_from", "vLLM").split()[0]
        self.recorder = self.watch = ReplayRecorder(self.scheduler)
        self.records = self.recorder.steps  # what is compared
        self.follows = not trace.get("kv_violations")
        self.fields = _compared_fields(trace)
        if self.connector is not None:
            self.watch.connector = self.connector
        self._inputs = {record["step"]: record for record in trace["steps"]} if self.follows else {}

    def first_difference(self) -> str | None:
        """Run to the end, or to the first step that differs."""
        recorded = self.trace["steps"]
        most_steps = len(recorded) + (0 if self.follows else MOST_EXTRA_STEPS)
        for number in range(most_steps + 1):
            if self.is_done():
                break
            if number == most_steps:
                return f"step {self.step}: not finished, and {self.original} is"
            self.run_step()
            found = self._step_difference(recorded[number]) if self.follows else None
            if found := found or self.watch.stale_read:
                return f"step {recorded[number]['step'] if self.follows else self.step - 1}: {found}"
        if self.follows and len(self.records) < len(recorded):
            return f"step {recorded[len(self.records)]['step']}: finished, and {self.original} is not"
        return self._end_difference()

    def run_step(self) -> SchedulerOutput:
        """Recorded drafts are an input, too: they come when the step is over."""
        output, number = super().run_step(), self.step - 1
        if self.connector is not None:
            self.records[-1]["calls"] = self.connector.take_calls()
        if isinstance(self.scheduler, SpeculativeScheduler):
            self.scheduler.update_draft_token_ids(self._recorded_drafts(number))
        return output

    def _report(self) -> TransferReport:
        """What the workers say with the step that ends now."""
        assert self.connector is not None
        return self.connector.reports[self.step]

    def _recorded_drafts(self, number: int) -> dict[str, Sequence[int]]:
        """The drafts that come in a step, as far as grammars allow them."""
        drafts: dict[str, Sequence[int]] = self._inputs.get(number, {}).get("drafts", {})
        return self.gate.allowed_drafts(drafts) if self.gate else drafts

    def _step_difference(self, recorded: Record) -> str | None:
        ours, theirs = comparable(self.records[-1], 2), comparable(recorded, self.trace.get("schema", 1))
        differing = (name for name in self.fields if ours.get(name) != theirs.get(name))
        return next((self._difference(name, ours.get(name), theirs.get(name)) for name in differing), None)

    def _end_difference(self) -> str | None:
        ours, theirs = self.to_trace(), self.trace
        for request_id, token_ids in theirs["outputs"].items():
            if ours["outputs"].get(request_id) != token_ids:
                return self._difference(f"output of {request_id}", ours["outputs"].get(request_id), token_ids)
        for name, value in theirs["totals"].items() if self.follows else ():
            if ours["totals"].get(name) != value:
                return self._difference(f"totals: {name}", ours["totals"].get(name), value)
        return None

    def _difference(self, name: str, ours: Any, theirs: Any) -> str:
        """Both values as text; of long ones the stretch around the first character that differs."""
        texts = str(ours), str(theirs)
        pairs = enumerate(zip(*texts, strict=False))
        first = next((i for i, (mine, recorded) in pairs if mine != recorded), min(map(len, texts)))
        start = max(0, first - WIDTH // 2) if max(map(len, texts)) > WIDTH else 0
        mine, recorded = (
            ("..." if start else "") + text[start : start + WIDTH] + ("..." if len(text) > start + WIDTH else "")
            for text in texts
        )
        return f"{name}: ours {mine}, {self.original} {recorded}"

    def _make_request(self, spec: Record) -> Request:
        request = super()._make_request(spec)
        if grammar := spec.get("grammar"):
            structured = StructuredOutputs(grammar=json.dumps(grammar))
            request.sampling_params = replace(request.sampling_params, structured=structured)
        return request

    def _sample(self, request: Request, drafts: Sequence[int]) -> list[int]:
        """The recorded tokens, where tokens are recorded: they are an input."""
        token_ids = self._inputs.get(self.step, {}).get("sampled", {}).get(request.request_id)
        return token_ids or super()._sample(request, drafts)


def replay(trace: Record, **classes: Unpack[Classes]) -> str | None:
    """Run a trace's inputs on these classes; None if every decision is vLLM's, else the first thing that is not."""
    run = None
    try:
        if missing := unsupported(trace):
            return NOT_REPLAYED + missing
        run = _run_of(trace, **classes)
        return run.first_difference()
    except Exception as error:  # whatever is raised, the caller goes on to the next trace
        step = f"step {run.step}: " if run else ""
        return f"{step}{type(error).__name__}: {error}"


def differences(file: Path) -> list[str]:
    """Where runs of a file differ from what vLLM has decided, each by its name; [] where none does."""
    return [f"{trace['name']}: {found}" for trace in read_traces(file) if (found := replay(trace))]


def _run_of(trace: Record, **classes: Unpack[Classes]) -> ReplayRun:
    if trace["config"].get("async_scheduling"):
        from labkit.compare.replay_async import AsyncReplayRun  # it is a subclass of what is here

        return AsyncReplayRun(trace)
    return ReplayRun(trace, **classes)
