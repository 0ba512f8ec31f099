#!/usr/bin/env python3
"""Record what nano-vllm's own Scheduler and BlockManager decide, as traces that mini_vllm is replayed against.

    git clone https://github.com/GeeeekExplorer/nano-vllm REPO
    python tools/record_nano_vllm_traces.py REPO --out traces/      record (about a minute)
    python tools/record_nano_vllm_traces.py REPO --check traces/    run the recorded scenarios again and compare
    python tools/record_nano_vllm_traces.py REPO --random 500 --seed 7    replay other scenarios at once, keep none

Install xxhash and numpy, in any environment of Python 3.11 or later. REPO is a checkout or a bare repository: the two
versions are read from its history, the first commit with a scheduler ("first") and the newest one ("newest"). Their
scheduler.py, block_manager.py and sequence.py run as they are, without a GPU and without a model: a fake model makes up
the tokens, and a stub stands for the configuration, the only module of theirs that imports transformers. Everything is
seeded by the names of the scenarios.

One thing is changed, in the first version: its block size, 256, is written into its code, and another is written there
instead, so that traces stay small. The category "blocks_of_256" has it unchanged.

The form is that of the traces of vLLM (traces/README.md), with three conventions:
- Block ids are nano-vllm's plus 1, since block 0 is the null block here.
- A sequence that is cut stays in nano-vllm's waiting queue with its blocks. It is listed as waiting no more once it
  has blocks.
- `cached` counts the hashes under which nano-vllm finds a block that still holds that content.

Left out, and counted: scenarios in which nano-vllm fails (nothing can be scheduled; an assertion), in which the first
version has nothing to compute for a prompt that is cached whole, or in which it finds a block that holds another prefix
(its table of hashes keeps a hash when the block is taken again, and only the block's own tokens are compared).
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from labkit.compare.replay import replay  # noqa: E402
from tools.record_vllm_traces import (  # noqa: E402
    EOS,
    SCHEMA_VERSION,
    Json,
    Shadow,
    Shape,
    _draw_requests,
    dump,
    keep_those_that_add,
    read,
    sample_token,
    write_section,
)

COMMITS = {
    "first": "a5a4909e6a011e5443e354362a7e9c7b8b203e64",
    "newest": "bb823b3e06983d71485a8e1f23715ebd87d98ef8",
}
FIXED_SIZE = 256  # of a block, in the first version
MODULES = ("sampling_params", "engine.sequence", "engine.block_manager", "engine.scheduler")


# --- nano-vllm --------------------------------------------------------------------------------------------------------


@dataclass
class NanoVllm:
    """One version of nano-vllm at one block size: its classes."""

    version: str
    scheduler_cls: Any
    sequence_cls: Any
    sampling_params_cls: Any


def load(repository: Path, version: str, block_size: int) -> NanoVllm:
    """Import nano-vllm's modules from a commit, with a stub for its configuration."""
    stubs = {name: ModuleType(name) for name in ("nanovllm", "nanovllm.engine", "nanovllm.config")}
    stubs["nanovllm.config"].__dict__["Config"] = SimpleNamespace
    ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "nanovllm"}
    for name in ours:
        del sys.modules[name]
    sys.modules.update(stubs)
    for name in MODULES:
        path = f"nanovllm/{name.replace('.', '/')}.py"
        command = ["git", "-C", str(repository), "show", f"{COMMITS[version]}:{path}"]
        source = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        if version == "first":
            source = re.sub(rf"\b{FIXED_SIZE}\b", str(block_size), source)
            source = re.sub(rf"\b{FIXED_SIZE - 1}\b", str(block_size - 1), source)
        module = sys.modules[f"nanovllm.{name}"] = ModuleType(f"nanovllm.{name}")
        exec(compile(source, path, "exec"), module.__dict__)
    sequence_cls = sys.modules["nanovllm.engine.sequence"].Sequence
    sequence_cls.block_size = block_size  # as the newest version's engine does
    return NanoVllm(
        version,
        sys.modules["nanovllm.engine.scheduler"].Scheduler,
        sequence_cls,
        sys.modules["nanovllm.sampling_params"].SamplingParams,
    )


class LeftOutError(Exception):
    """A scenario that is no trace, and why."""


class Run:
    """One scenario in nano-vllm: the driver loop, which traces/README.md describes step by step."""

    def __init__(self, nano: NanoVllm, scenario: Json) -> None:
        self.nano, self.scenario, self.config = nano, scenario, scenario["config"]
        names = {"kvcache_block_size": "block_size", "eos": "eos_token_id"}
        names |= {name: name for name in ("max_num_seqs", "max_num_batched_tokens")}
        config = {theirs: self.config[ours] for theirs, ours in names.items()}
        self.scheduler = nano.scheduler_cls(SimpleNamespace(num_kvcache_blocks=self.config["num_blocks"] - 1, **config))
        self.manager = self.scheduler.block_manager
        self.specs: dict[str, Json] = {}
        self.sequences: dict[str, Any] = {}
        self.ids: dict[int, str] = {}  # by nano-vllm's own ids
        self.shadow = Shadow(self.config["block_size"])
        self.counts: Counter[str] = Counter()  # of the rules that the run exercises
        self.totals: Counter[str] = Counter()
        self.preempted: list[str] = []
        self.was_preempted: set[str] = set()
        self._watch()

    def _watch(self) -> None:
        """Note which request is preempted, and why."""
        preempt = self.scheduler.preempt

        def watched(seq: Any) -> Any:
            name = self.ids[seq.seq_id]
            self.preempted.append(name)
            self.was_preempted.add(name)
            return preempt(seq)

        self.scheduler.preempt = watched

    def record(self, max_steps: int = 1000) -> Json:
        arrivals = sorted(self.scenario["requests"], key=lambda r: r["arrival_step"])
        steps: list[Json] = []
        step = 0
        while arrivals or not self.scheduler.is_finished():
            if self.scheduler.is_finished():
                step = max(step, arrivals[0]["arrival_step"])
            if step > max_steps:
                raise LeftOutError("it does not end")
            while arrivals and arrivals[0]["arrival_step"] <= step:
                self._add(arrivals.pop(0))
            try:
                steps.append(self._step(step))
            except AssertionError as error:
                raise LeftOutError("an assertion of nano-vllm fails") from error
            step += 1
        return self._trace(steps)

    def _add(self, spec: Json) -> None:
        params = self.nano.sampling_params_cls(max_tokens=spec["max_tokens"], ignore_eos=spec["ignore_eos"])
        seq = self.nano.sequence_cls(spec["prompt"], params)
        self.specs[spec["id"]], self.sequences[spec["id"]], self.ids[seq.seq_id] = spec, seq, spec["id"]
        self.scheduler.add(seq)

    def _step(self, step: int) -> Json:
        self.preempted = []
        held = {name: list(seq.block_table) for name, seq in self.sequences.items()}
        num_running = len(self.scheduler.running)
        scheduled = self.scheduler.schedule()
        if not scheduled or not scheduled[0]:
            raise LeftOutError("nothing can be scheduled")
        seqs, is_prefill = scheduled
        record: Json = {"step": step}
        spans = self._note_schedule(record, seqs, is_prefill, held)
        self._count_schedule(seqs, is_prefill, num_running, spans)
        self.shadow.execute(step, spans)
        if self.shadow.violations:
            raise LeftOutError("it reads a block of another prefix")
        tokens = [self._sample(name, end) for name, _, _, _, end in spans]
        if self.nano.version == "first":
            self.scheduler.postprocess(seqs, tokens)
        else:
            self.scheduler.postprocess(seqs, tokens, is_prefill)
        self._note_update(record, spans)
        return record

    def _note_schedule(
        self, record: Json, seqs: list[Any], is_prefill: bool, held: dict[str, list[int]]
    ) -> list[tuple[str, list[int], list[int], int, int]]:
        """Returns of each sequence its id, block table, tokens, and which of them the step computes."""
        spans = []
        admitted: dict[str, list[Any]] = {"new": [], "resumed": []}
        blocks: dict[str, list[int]] = {}
        for seq in seqs:
            name = self.ids[seq.seq_id]
            start = seq.num_cached_tokens if is_prefill else len(seq) - 1
            end = start + seq.num_scheduled_tokens if self.nano.version == "newest" else len(seq)
            if start >= end:
                raise LeftOutError("a prompt whole in its cache")
            table = [block_id + 1 for block_id in seq.block_table]
            spans.append((name, table, list(seq.token_ids), start, end))
            if not held[name]:
                admitted["resumed" if name in self.was_preempted else "new"].append([name, start])
            if len(table) > len(held[name]):
                blocks[name] = table[len(held[name]) :]
        record["sched"] = [[name, end - start] for name, _, _, start, end in spans]
        waiting = [self.ids[seq.seq_id] for seq in self.scheduler.waiting if not seq.block_table]
        optional = {**admitted, "preempted": self.preempted, "blocks": blocks, "waiting": waiting}
        record |= {key: value for key, value in optional.items() if value}
        record["free_sched"] = len(self.manager.free_block_ids)
        for kind, prefix in (("new", "prefix"), ("resumed", "preempted")):
            for name, hit in admitted[kind]:
                self.totals[f"{prefix}_requests"] += 1
                self.totals[f"{prefix}_queries"] += len(self.sequences[name])
                self.totals[f"{prefix}_hits"] += hit
                self.counts[f"hit_of_{kind}"] += hit > 0
        return spans

    def _count_schedule(self, seqs: list[Any], is_prefill: bool, num_running: int, spans: list[Any]) -> None:
        counts, seats, budget = self.counts, self.config["max_num_seqs"], self.config["max_num_batched_tokens"]
        num_waiting = any(not seq.block_table for seq in self.scheduler.waiting)
        num_tokens = sum(end - start for *_, start, end in spans)
        if is_prefill:
            counts["cut"] += any(end < len(tokens) for _, _, tokens, _, end in spans)
            counts["prefill_while_others_run"] += num_running > 0
            counts["step_full_of_newcomers"] += num_waiting and len(seqs) == seats
            if num_waiting and len(seqs) < seats and num_tokens < budget:
                seq = next(seq for seq in self.scheduler.waiting if not seq.block_table)
                fits = seq.num_blocks <= len(self.manager.free_block_ids)
                counts["budget_refuses" if fits else "blocks_refuse"] += 1
            counts["more_run_than_places"] += len(self.scheduler.running) > seats
            return
        size = self.config["block_size"]
        counts["decode_behind_the_places"] += num_running - len(self.preempted) > seats
        counts["decodes_above_the_budget"] += len(seqs) > budget
        counts["decode_while_some_wait"] += num_waiting
        counts["preempted"] += len(self.preempted)
        counts["several_preempted"] += len(self.preempted) > 1
        asked = [*seqs, *(self.sequences[name] for name in self.preempted)]
        counts["preempted_though_nobody_needs_a_block"] += bool(self.preempted) and all(
            len(seq) % size != 1 for seq in asked
        )
        counts["last_preempts_itself"] += bool(self.preempted) and num_running == len(seqs) + 1

    def _sample(self, name: str, end: int) -> int:
        """The token of a sequence; of one that has not caught up nano-vllm drops it."""
        return sample_token(self.specs[name]["sample_seed"], end, self.config["vocab_size"])

    def _note_update(self, record: Json, spans: list[Any]) -> None:
        finished = []
        for name, *_ in spans:
            seq, spec = self.sequences[name], self.specs[name]
            if seq.status.name == "FINISHED":
                stopped = seq.token_ids[-1] == EOS and not spec["ignore_eos"]
                finished.append([name, "stop" if stopped else "length"])
        if finished:
            record["finished"] = finished
            self.counts.update(reason for _, reason in finished)
        record["free"] = len(self.manager.free_block_ids)
        found = self.manager.hash_to_block_id.items()
        record["cached"] = sum(self.manager.blocks[block_id].hash == block_hash for block_hash, block_id in found)
        held = [block.hash for block in self.manager.blocks if block.hash != -1]
        self.counts["equal_blocks"] += len(held) > len(set(held))

    def _trace(self, steps: list[Json]) -> Json:
        names = [f"{kind}_{what}" for kind in ("prefix", "preempted") for what in ("requests", "queries", "hits")]
        return {
            "schema": SCHEMA_VERSION,
            "recorded_from": f"nano-vllm {COMMITS[self.nano.version]}",
            **self.scenario,
            "exercises": {rule: n for rule, n in sorted(self.counts.items()) if n},
            "steps": steps,
            "outputs": {name: seq.token_ids[seq.num_prompt_tokens :] for name, seq in self.sequences.items()},
            "totals": {
                "preemptions": sum(len(record.get("preempted", ())) for record in steps),
                **{name: self.totals[name] for name in names},
                "steps": len(steps),
                "scheduled_tokens": sum(n for record in steps for _, n in record["sched"]),
                "final_free_queue": [block_id + 1 for block_id in self.manager.free_block_ids],
            },
        }


# --- scenarios --------------------------------------------------------------------------------------------------------

BASE = Shape(
    block_size=(2, 3, 4, 5, 8, 16), num_requests=(3, 7), prompt=(1, 20), max_tokens=(1, 12), vocab_size=(9, 30)
)
CATEGORIES: dict[str, Shape] = {
    "room": replace(BASE, budget=(16, 80)),
    "tight": replace(BASE, memory=(0.2, 0.5), max_tokens=(4, 20)),
    "shared": replace(BASE, num_prefixes=2, twins=0.15, memory=(0.4, 1.0), block_size=(2, 3, 4), prefix=(4, 20)),
    "evicted": replace(BASE, num_prefixes=3, twins=0.25, memory=(0.15, 0.4), prefix=(4, 20), num_requests=(5, 9)),
    "turns": replace(BASE, turns=0.7, memory=(0.3, 0.9), gap=(1, 8), prompt=(3, 12), block_size=(2, 3, 4)),
    "places": replace(BASE, max_num_seqs=(1, 3), memory=(0.3, 1.2), gap=(0, 1), max_tokens=(4, 14)),
    "budget": replace(BASE, budget=(1, 14), memory=(0.3, 1.2), gap=(0, 2), num_prefixes=1, prefix=(4, 12)),
    "hits": replace(
        BASE,
        num_prefixes=1,
        prefix=(8, 24),
        prompt=(1, 6),
        budget=(1, 16),
        gap=(0, 1),
        memory=(0.5, 1.2),
        block_size=(2, 3, 4),
        twins=0.1,
        num_requests=(6, 9),
    ),
    "narrow": replace(BASE, budget=(1, 4), max_num_seqs=(4, 8), prompt=(1, 8), gap=(0, 1), max_tokens=(6, 12)),
    "crowd": replace(BASE, num_requests=(8, 12), gap=(0, 1), prompt=(1, 12), memory=(0.2, 0.6), twins=0.2),
    "ends": replace(BASE, vocab_size=(4, 9), ignore_eos=0.3, max_tokens=(1, 24), memory=(0.3, 0.8), idle=0.2),
    "mixed": replace(BASE, memory=(0.15, 0.8), num_prefixes=2, twins=0.15, turns=0.15, budget=(3, 40), prefix=(2, 16)),
    "blocks_of_256": Shape(
        block_size=(FIXED_SIZE,),
        num_requests=(2, 4),
        prompt=(100, 500),
        max_tokens=(2, 5),
        budget=(300, 2000),
        vocab_size=(9,),
        memory=(0.4, 1.0),
        num_prefixes=1,
        prefix=(FIXED_SIZE, 2 * FIXED_SIZE),
    ),
}


def draw_scenario(name: str, version: str, shape: Shape) -> Json:
    """The scenario of that name, always the same one."""
    rng = random.Random(name)
    block_size, vocab_size = rng.choice(shape.block_size), rng.choice(shape.vocab_size)
    requests = _draw_requests(rng, shape, vocab_size)
    for request in requests:
        request["ignore_eos"] &= version == "newest"  # the first version knows no such option
    longest = max(len(r["prompt"]) + r["max_tokens"] for r in requests)
    demand = sum(-(-(len(r["prompt"]) + r["max_tokens"]) // block_size) for r in requests)
    usable = max(-(-longest // block_size) + (version == "first"), int(demand * rng.uniform(*shape.memory)))
    budget = rng.randint(*shape.budget)
    config = {
        "scheduler": "nano_vllm",
        "nano_vllm": version,
        "block_size": block_size,
        "num_blocks": usable + 1,
        "max_num_seqs": rng.randint(*shape.max_num_seqs),
        "max_num_batched_tokens": max(budget, longest) if version == "first" else budget,
        "max_model_len": longest,
        "vocab_size": vocab_size,
        "eos_token_id": EOS,
    }
    category = name.rsplit("_", 1)[0].removeprefix(f"{version}_")
    return {"name": name, "category": category, "config": config, "requests": requests, "aborts": []}


# --- files ------------------------------------------------------------------------------------------------------------


class Library:
    """nano-vllm's versions at every block size that was asked for."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository
        self.loaded: dict[tuple[str, int], NanoVllm] = {}

    def run(self, scenario: Json) -> Json:
        config = scenario["config"]
        key = config["nano_vllm"], config["block_size"] if config["nano_vllm"] == "first" else 0
        if key not in self.loaded:
            self.loaded[key] = load(self.repository, config["nano_vllm"], config["block_size"])
        nano = self.loaded[key]
        nano.sequence_cls.block_size = config["block_size"]
        return Run(nano, scenario).record()

    def candidates(self, version: str, category: str, prefix: str, count: int, skipped: Counter[str]) -> Iterator[Json]:
        for i in range(count):
            try:
                yield self.run(draw_scenario(f"{prefix}{version}_{category}_{i:03}", version, CATEGORIES[category]))
            except LeftOutError as error:
                skipped[str(error)] += 1


def record(library: Library, out: Path, num_candidates: int, wanted: int) -> None:
    """Write a file for each version, of `wanted` traces, and what they cover into the README beside them."""
    folder = out / "nano-vllm"
    folder.mkdir(parents=True, exist_ok=True)
    text = "| version | commit | traces | steps | bytes | scenarios left out |\n|---|---|---:|---:|---:|---|\n"
    rules: dict[str, Counter[str]] = {}
    for version, commit in COMMITS.items():
        skipped: Counter[str] = Counter()
        kept: list[Json] = []
        for number, category in enumerate(CATEGORIES):
            drawn = list(library.candidates(version, category, "", num_candidates, skipped))
            share = (wanted - len(kept)) // (len(CATEGORIES) - number)
            best = keep_those_that_add(drawn, (), min(share, 4) if category == "blocks_of_256" else share)
            kept += best
            kept += [trace for trace in drawn if trace not in best][: share - len(best)]
        for trace in kept:
            rules.setdefault(version, Counter()).update(trace["exercises"].keys())
        lines = "".join(dump(trace) + "\n" for trace in kept)
        (folder / f"{version}.jsonl").write_text(lines)
        reasons = ", ".join(f"{n} {why}" for why, n in sorted(skipped.items())) or "none"
        steps = sum(len(trace["steps"]) for trace in kept)
        text += f"| {version} | {commit[:12]} | {len(kept)} | {steps} | {len(lines):,} | {reasons} |\n"
    text += "\n| rule | traces of the first | of the newest |\n|---|---:|---:|\n"
    for rule in sorted(set().union(*rules.values())):
        text += f"| {rule} | {rules['first'][rule]} | {rules['newest'][rule]} |\n"
    print(text)
    write_section(folder / "README.md", "corpus", text)


def check(library: Library, folder: Path) -> int:
    """Run every recorded scenario again; return how many come out differently."""
    traces = [trace for file in sorted((folder / "nano-vllm").glob("*.jsonl")) for trace in read(file)]
    num_different = 0
    for trace in traces:
        scenario = {key: trace[key] for key in ("name", "category", "config", "requests", "aborts")}
        if library.run(scenario) != trace:
            num_different += 1
            print(f"{trace['name']} comes out differently")
    print(f"{len(traces)} traces run again in nano-vllm, {num_different} differ")
    return num_different or not traces


def try_others(library: Library, seed: int, count: int) -> int:
    """Replay `count` scenarios of each version and category that are in no file; return how many differ."""
    num_traces = num_different = 0
    skipped: Counter[str] = Counter()
    for version in COMMITS:
        for category in CATEGORIES:
            for trace in library.candidates(version, category, f"seed{seed}_", count, skipped):
                num_traces += 1
                if difference := replay(trace):
                    num_different += 1
                    print(f"{trace['name']}: {difference}")
    print(f"seed {seed}: {num_traces - num_different} of {num_traces} equal; left out: {dict(skipped)}")
    return num_different or not num_traces


def main() -> int:
    """Parse the command line; record, check or try."""
    parser = argparse.ArgumentParser(description="Record nano-vllm's decisions (see the head of this file).")
    parser.add_argument("repository", type=Path, help="a checkout or a bare repository of nano-vllm")
    parser.add_argument("--out", type=Path, help="folder to write to, usually traces/")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="run the recorded scenarios again and compare")
    parser.add_argument("--random", type=int, metavar="N", help="replay N other scenarios of each sort")
    parser.add_argument("--seed", type=int, default=0, help="of the other scenarios")
    parser.add_argument("--candidates", type=int, default=120, help="scenarios drawn for each category")
    parser.add_argument("--keep", type=int, default=100, help="traces kept of each version")
    args = parser.parse_args()
    if sum(option is not None for option in (args.out, args.check, args.random)) != 1:
        parser.error("say one of --out FOLDER, --check FOLDER, --random N")
    library = Library(args.repository)
    if args.out:
        record(library, args.out, args.candidates, args.keep)
        return 0
    if args.check:
        return int(bool(check(library, args.check)))
    return int(bool(try_others(library, args.seed, args.random)))


if __name__ == "__main__":
    sys.exit(main())
