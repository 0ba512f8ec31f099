#!/usr/bin/env python3
"""Record what the real scheduler of vLLM 0.5.5 (V0) decides, as traces that sequence_group is replayed against.

vLLM's own Scheduler (_schedule_default), BlockSpaceManagerV1, SequenceGroup and SingleStepOutputProcessor run here
without a GPU and without a model: a fake model makes up the tokens. Nothing in vLLM is changed. Everything is drawn
from seeds, 0 to 199 for requests of one sequence and 0 to 99 for groups, and every scenario that is drawn is kept. So
the same command writes the same files, byte for byte.

    python tools/record_vllm_v0_traces.py --vllm FOLDER --out traces/          record (about ten seconds)
    python tools/record_vllm_v0_traces.py --vllm FOLDER --check traces/        run the recorded scenarios again, compare
    python tools/record_vllm_v0_traces.py --vllm FOLDER --out /tmp/more --first-seed 1000     others of the same kind

Install once, in a virtual environment of its own (Python 3.11 or later). Only the Python files of the wheel are used:

    python3 -m venv VENV && . VENV/bin/activate
    pip install msgspec typing_extensions
    pip download --no-deps vllm==0.5.5 -d WHEEL && python -m zipfile -e WHEEL/vllm-0.5.5-*.whl FOLDER

What vLLM's modules import but its scheduler never uses (torch, transformers, its own model code, ...) is replaced by
empty modules. The schema is in traces/vllm-0.5.5/README.md.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import importlib.abc
import importlib.machinery
import json
import logging
import random
import sys
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.record_vllm_traces import EOS, Json, sample_token  # noqa: E402

VLLM_VERSION = "0.5.5"
SCHEMA_VERSION = 1
NUM_SINGLE, NUM_FORKED = 200, 100
VOCAB_SIZE = 20
WATERMARK = 0.01  # BlockSpaceManagerV1's, which V0's scheduler never changes


# ---------------------------------------------------------------------------------------------------------------------
# Scenarios


def draw_scenario(kind: str, seed: int) -> Json:
    """A scenario that V0 accepts: its budget is at least max_model_len, and max_model_len fits into the pool.

    Prompts are all of one token, since nothing that is recorded depends on what they say.
    """
    rng = random.Random(f"vllm-v0 {kind} {seed}")
    is_large = rng.random() < 0.35  # a pool of 100 blocks or more has a watermark
    block_size = rng.choice((1, 1, 2) if is_large else (1, 2, 3, 4, 8, 16))
    unit = rng.choice((8, 20, 40, 60)) if is_large else rng.choice((2, 5, 10, 20))
    is_crowded = is_large and unit == 8  # many that are short: the blocks that are free grow and shrink by a few
    most_choices = 1 if kind == "single" else rng.randint(2, 5)
    requests: list[Json] = []
    step = 0
    for i in range(rng.randint(15, 25) if is_crowded else rng.randint(5, 14)):
        step += rng.choice((0, 0, 0, 1, 3)) if rng.random() < 0.95 else rng.randint(20, 60)
        num_prompt, max_tokens = rng.randint(1, 2 * unit), rng.randint(1, 3 * unit)
        num_choices = 1 if kind == "single" or rng.random() < 0.2 else rng.randint(2, most_choices)
        ignore_eos = rng.random() < 0.5
        for choice in range(num_choices):
            request = {"id": f"r{i}", "arrival_step": step, "prompt": [1] * num_prompt, "max_tokens": max_tokens}
            if num_choices > 1:
                request |= {"id": f"r{i}_{choice}", "group": f"r{i}"}
            requests.append(request | {"ignore_eos": ignore_eos, "sample_seed": rng.getrandbits(32)})
    lengths = [len(request["prompt"]) + request["max_tokens"] for request in requests]
    max_model_len = max(lengths)
    largest = max(blocks_of(group, block_size) for group in by_group(requests).values())
    num_blocks = largest + (rng.randint(0, 4) if rng.random() < 0.3 else int(largest * rng.uniform(0.1, 1.5)))
    if is_large:
        num_blocks = max(num_blocks, 99 + rng.randint(0, 20))
        if rng.random() < 0.4:  # one block more, and the watermark would be one more, too
            num_blocks += 99 - num_blocks % 100
        if rng.random() < 0.3:  # a request that V0 gives up, now or when it is preempted: the watermark is kept free
            last, room = requests[-1], rng.randint(1, 6)
            if "group" not in last:
                last |= {"prompt": [1] * (num_blocks * block_size - room), "max_tokens": rng.randint(1, room)}
                max_model_len = len(last["prompt"]) + last["max_tokens"]
    if rng.random() < 0.2:  # somebody asks for more than the longest sequence
        step = rng.randint(0, step)
        request = {"id": "too_long", "arrival_step": step, "prompt": [1] * (max_model_len + 1), "max_tokens": 1}
        requests.append(request | {"ignore_eos": True, "sample_seed": 0, "too_long": True})
    requests.sort(key=lambda request: request["arrival_step"])
    max_num_seqs = most_choices + (50 if is_crowded else rng.randint(1, 10))
    num_cpu_blocks = num_blocks * rng.choice((0, 1, 2, 4, 4, 4, 4, 4)) // 2
    config = {
        "scheduler": "sequence_group",
        "strict_v0": True,
        "block_size": block_size,
        "num_blocks": num_blocks + 1,
        "num_cpu_blocks": num_cpu_blocks,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max(max_model_len, max_num_seqs) + rng.choice((0, unit, 4 * unit)),
        "max_model_len": max_model_len,
        "enable_chunked_prefill": False,
        "enable_prefix_caching": False,
        "watermark": WATERMARK,
        "vocab_size": VOCAB_SIZE,
        "eos_token_id": EOS,
    }
    aborts = []
    if rng.random() < 0.3:
        for group in by_group(requests).values():
            if rng.random() < 0.3:
                when = {"step": rng.randint(0, step + 4 * unit), "phase": rng.choice(("before", "during"))}
                aborts += [when | {"id": request["id"]} for request in group]
    return {
        "name": f"{kind}_{seed:04}",
        "category": kind,
        "config": config,
        "requests": requests,
        "aborts": aborts,
    }


def group_of(request: Json) -> str:
    return request.get("group", request["id"])


def by_group(requests: list[Json]) -> dict[str, list[Json]]:
    groups: dict[str, list[Json]] = {}
    for request in requests:
        groups.setdefault(group_of(request), []).append(request)
    return groups


def blocks_of(group: list[Json], block_size: int) -> int:
    """How many blocks a group holds at its greatest length: the full ones of the prompt are shared."""
    num_prompt = len(group[0]["prompt"])
    num_shared = num_prompt // block_size
    return num_shared + len(group) * (-(-(num_prompt + group[0]["max_tokens"]) // block_size) - num_shared)


# ---------------------------------------------------------------------------------------------------------------------
# vLLM


class Anything(type):
    """Stands for whatever a module that is not there would hold."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __or__(cls, other: Any) -> Any:
        return cls

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())


class Nothing(metaclass=Anything):
    """A class without content, to annotate with, to inherit from, to call."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


class EmptyModule(types.ModuleType):
    """Has a class without content under any name."""

    __path__: list[str] = []  # noqa: RUF012 (what the import system looks for)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing


class EmptyModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports an empty module for what V0's scheduler does not use."""

    ROOTS = ("torch", "transformers", "numpy", "psutil", "tqdm", "PIL", "huggingface_hub", "requests", "aiohttp")
    REAL = (  # of vLLM: these and what lies below or above them
        *("vllm.core", "vllm.sequence", "vllm.block", "vllm.config", "vllm.utils", "vllm.sampling_params"),
        *("vllm.inputs", "vllm.lora.request", "vllm.prompt_adapter.request", "vllm.pooling_params", "vllm.envs"),
        *("vllm.engine.output_processor", "vllm.logger", "vllm.logging"),
    )

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        is_real = any(name == real or f"{name}.".startswith(f"{real}.") for real in self.REAL)
        is_above = any(real.startswith(f"{name}.") for real in self.REAL)
        if name.split(".")[0] in self.ROOTS or (name.startswith("vllm.") and not is_real and not is_above):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return EmptyModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


class Vllm:
    """The classes of vLLM 0.5.5 that are used, from the unpacked wheel."""

    def __init__(self, folder: Path) -> None:
        metadata = (folder / f"vllm-{VLLM_VERSION}.dist-info" / "METADATA").read_text().split("\n")
        assert f"Version: {VLLM_VERSION}" in metadata, f"{folder} holds another vLLM"
        sys.meta_path.insert(0, EmptyModules())
        for name in ("vllm", "vllm.engine", "vllm.lora", "vllm.prompt_adapter"):  # without their __init__.py
            package = types.ModuleType(name)
            package.__path__ = [str(folder / name.replace(".", "/"))]
            sys.modules[name] = package
        self.config = importlib.import_module("vllm.config")
        self.scheduler = importlib.import_module("vllm.core.scheduler")
        self.sequence = importlib.import_module("vllm.sequence")
        self.sampling_params = importlib.import_module("vllm.sampling_params")
        self.single_step = importlib.import_module("vllm.engine.output_processor.single_step")
        self.stop_checker = importlib.import_module("vllm.engine.output_processor.stop_checker")
        self.counter = importlib.import_module("vllm.utils").Counter
        logging.disable(logging.CRITICAL)


class Stopped(Exception):  # noqa: N818 (it ends a trace, and is no error of ours)
    """V0 cannot go on, or goes on with something broken."""


class Run:
    """One scenario in vLLM. A trace ends early where V0 itself breaks; `ends` says why."""

    def __init__(self, vllm: Vllm, scenario: Json) -> None:
        self.vllm, self.scenario = vllm, scenario
        config = scenario["config"]
        scheduler_config = vllm.config.SchedulerConfig(
            max_num_batched_tokens=config["max_num_batched_tokens"],
            max_num_seqs=config["max_num_seqs"],
            max_model_len=config["max_model_len"],
        )
        cache_config = vllm.config.CacheConfig(config["block_size"], 1.0, 1, "auto")
        cache_config.num_gpu_blocks = config["num_blocks"] - 1  # ours count the null block
        cache_config.num_cpu_blocks = config["num_cpu_blocks"]
        self.scheduler = vllm.scheduler.Scheduler(scheduler_config, cache_config, None)
        self.blocks = self.scheduler.block_manager
        self.counter = vllm.counter()
        self.processor = vllm.single_step.SingleStepOutputProcessor(
            scheduler_config,
            None,
            [self.scheduler],
            self.counter,
            vllm.stop_checker.StopChecker(config["max_model_len"], None),
        )
        self.specs = by_group(scenario["requests"])
        self.groups: dict[str, Any] = {}  # that were added
        self.todo = list(self.specs)
        self.step = 0
        self.steps: list[Json] = []
        self.num_lost = 0  # CPU blocks of groups that V0 gave up, which it never frees
        self.seen: Counter[str] = Counter()

    def record(self) -> Json:
        ends = None
        try:
            while self.todo or self.scheduler.has_unfinished_seqs():
                self.run_step()
        except Stopped as reason:
            ends = str(reason)
        outputs = {
            spec["id"]: list(seq.get_output_token_ids())
            for name, group in self.groups.items()
            for spec, seq in zip(self.specs[name], group.seqs, strict=False)
            if seq.get_output_len()
        }
        trace = {"schema": SCHEMA_VERSION, **self.scenario, "exercises": dict(sorted(self.seen.items()))}
        return trace | {"steps": self.steps, "outputs": outputs} | ({"ends": ends} if ends else {})

    # one step

    def run_step(self) -> None:
        if not self.scheduler.has_unfinished_seqs():
            self.step = max(self.step, self.specs[self.todo[0]][0]["arrival_step"])
        before = self.abort("before")
        while self.todo and self.specs[self.todo[0]][0]["arrival_step"] <= self.step:
            self.add(self.todo.pop(0))
        queues = {"running": list(self.scheduler.running), "swapped": list(self.scheduler.swapped)}
        metadata, output = self.schedule()
        record: Json = {"step": self.step, "sched": self.scheduled(metadata, output)}
        record |= self.decisions(output, queues)
        record |= {"free_sched": self.blocks.get_num_free_gpu_blocks(), "free_cpu_sched": self.num_free_cpu()}
        groups = [each.seq_group for each in output.scheduled_seq_groups]
        samples = [self.sample(group) for group in groups]
        chunks = [each.token_chunk_size for each in output.scheduled_seq_groups]  # the objects are used again
        during = self.abort("during")
        finished = [*self.process(groups, samples, chunks)]
        record |= {"aborted_before": before, "aborted_during": during, "finished": finished}
        record |= {"free": self.blocks.get_num_free_gpu_blocks(), "free_cpu": self.num_free_cpu()}
        self.steps.append({name: value for name, value in record.items() if value != [] or name == "sched"})
        self.step += 1
        is_stuck = not groups and not self.scheduler.running and not output.ignored_seq_groups
        if is_stuck and self.scheduler.swapped and not output.blocks_to_swap_out:
            raise Stopped("V0 waits for ever for room for a swapped group")

    def schedule(self) -> tuple[Any, Any]:
        try:
            metadata, output = self.scheduler.schedule()
        except RuntimeError as error:
            if "lack of CPU swap space" not in str(error):
                raise
            raise Stopped("V0 ends for lack of main memory") from error
        except AssertionError as error:
            if not self.computes_forked_group_again():
                raise
            raise Stopped("V0 cannot compute a sequence of a forked group again") from error
        for each in output.scheduled_seq_groups:  # it counts the finished ones as holders of the blocks, too
            if output.num_prefill_groups and len(each.seq_group.seqs) > 1:
                raise Stopped("V0 cannot compute a sequence of a forked group again")
        return metadata, output

    def computes_forked_group_again(self) -> bool:
        return any(group.is_prefill() and len(group.seqs) > 1 for group in self.groups.values())

    def scheduled(self, metadata: Any, output: Any) -> list[Json]:
        tokens = []
        for group, data in zip(output.scheduled_seq_groups, metadata, strict=True):
            assert data.is_prompt == bool(output.num_prefill_groups)
            assert list(data.seq_data) == list(data.block_tables)
            tokens += [[self.name(group.seq_group, seq_id), group.token_chunk_size] for seq_id in data.seq_data]
        return tokens

    def decisions(self, output: Any, before: Json) -> Json:
        scheduler = self.scheduler
        waiting, swapped, running = list(scheduler.waiting), list(scheduler.swapped), list(scheduler.running)
        recomputed = [group for group in waiting if group in before["running"]]
        stored = [group for group in swapped if group in before["running"]]
        victims = [group for group in reversed(before["running"]) if group in recomputed or group in stored]
        came_back = [group for group in running if group in before["swapped"]]
        given_up = [group for group in output.ignored_seq_groups if group.request_id != "too_long"]
        for group in given_up:
            if group in before["swapped"]:
                self.num_lost += self.num_held_by(group)
        copied = [pair[0] for pair in output.blocks_to_copy]
        assert output.preempted == len(victims) == len(recomputed) + len(stored)
        self.count(output, before, recomputed, stored, came_back, copied)
        return {
            "is_prefill": int(bool(output.num_prefill_groups)),
            "preempted": self.members(victims),
            "stored": self.members(stored),
            "restored": self.members(came_back),
            "given_up": [request_id for group in given_up for request_id in self.all_members(group)],
            "num_out": len(output.blocks_to_swap_out),
            "num_in": len(output.blocks_to_swap_in),
            "num_copied": len(copied),
            "running": self.members(running),
            "waiting": self.members([*swapped, *waiting]),
        }

    def count(self, output: Any, before: Json, recomputed: Any, stored: Any, came_back: Any, copied: Any) -> None:
        free, watermark = self.blocks.get_num_free_gpu_blocks(), self.blocks.watermark_blocks
        for rule, number in (
            ("recompute", len(recomputed)),
            ("swap_out", len(stored)),
            ("swap_in", len(came_back)),
            ("copy", len(copied)),
            ("several_stored_at_once", len(stored) > 1),
            ("stored_behind_others", bool(stored and before["swapped"])),
            ("free_blocks_below_watermark", free < watermark),
            ("given_up", len([group for group in output.ignored_seq_groups if group.request_id != "too_long"])),
            ("swapped_hold_up_waiting", bool(self.scheduler.swapped and self.scheduler.waiting)),
            ("alone_and_preempted", len(before["running"]) == 1 and len(recomputed) + len(stored) == 1),
        ):
            if number:
                self.seen[rule] += int(number)

    def num_held_by(self, group: Any) -> int:
        tables = [self.blocks.block_tables.get(seq.seq_id, ()) for seq in group.seqs]
        return len({block.block_number for table in tables for block in table})

    def num_free_cpu(self) -> int:
        return self.blocks.get_num_free_cpu_blocks() + self.num_lost

    # requests

    def add(self, name: str) -> None:
        spec = self.specs[name][0]
        params = self.vllm.sampling_params.SamplingParams(
            n=min(2, len(self.specs[name])),  # V0 schedules best_of sequences, and returns n of them
            best_of=len(self.specs[name]),
            max_tokens=spec["max_tokens"],
            ignore_eos=spec["ignore_eos"],
            detokenize=False,
        )
        inputs = {"prompt_token_ids": spec["prompt"]}
        block_size = self.scenario["config"]["block_size"]
        sequence = self.vllm.sequence.Sequence(next(self.counter), inputs, block_size, EOS)
        group = self.vllm.sequence.SequenceGroup(name, [sequence], 0.0, params)
        self.groups[name] = group
        self.scheduler.add_seq_group(group)

    def abort(self, phase: str) -> list[str]:
        aborted = []
        for name, specs in self.specs.items():
            is_due = any(
                (a["step"], a["phase"], a["id"]) == (self.step, phase, specs[0]["id"]) for a in self.scenario["aborts"]
            )
            if is_due and name in self.groups and not self.groups[name].is_finished():
                aborted += self.members([self.groups[name]])
                self.scheduler.abort_seq_group(name)
        return aborted

    def name(self, group: Any, seq_id: int) -> str:
        place = [seq.seq_id for seq in group.seqs].index(seq_id)
        return self.specs[group.request_id][place]["id"]

    def all_members(self, group: Any) -> list[str]:
        return [spec["id"] for spec in self.specs[group.request_id]]

    def members(self, groups: list[Any]) -> list[str]:
        """The sequences that live. Before its prompt is computed, a group has the one, and is to have all of them."""
        names = []
        for group in groups:
            if group.request_id == "too_long":  # ours is refused when it is added
                continue
            if len(group.seqs) < len(self.specs[group.request_id]):
                names += self.all_members(group)
            else:
                names += [self.name(group, seq.seq_id) for seq in group.seqs if not seq.is_finished()]
        return names

    # the model

    def sample(self, group: Any) -> list[Any]:
        """V0's sampler gives a prompt's last sample to the sequence that is there, and forks for the others."""
        specs = self.specs[group.request_id]
        running = self.vllm.sequence.SequenceStatus.RUNNING
        sequences = group.get_seqs(status=running)
        if len(group.seqs) < len(specs):
            pairs = [(sequences[0], spec) for spec in (*specs[1:], specs[0])]
        else:
            pairs = [(seq, specs[group.seqs.index(seq)]) for seq in sequences]
        samples = []
        for seq, spec in pairs:
            token = sample_token(spec["sample_seed"], seq.get_len(), VOCAB_SIZE)
            logprobs = {token: self.vllm.sequence.Logprob(0.0)}
            samples.append(self.vllm.sequence.SequenceOutput(seq.seq_id, token, logprobs))
        return samples

    def process(self, groups: list[Any], samples: list[Any], chunks: list[int]) -> Iterator[list[str]]:
        """As LLMEngine._process_model_outputs does. Yields who finished, and why."""
        reasons = self.vllm.sequence.SequenceStatus.get_finished_reason
        for group, outputs, chunk in zip(groups, samples, chunks, strict=True):
            over = {seq.seq_id for seq in group.seqs if seq.is_finished()}
            if group.is_finished():  # aborted meanwhile
                continue
            group.update_num_computed_tokens(chunk)
            output = self.vllm.sequence.CompletionSequenceGroupOutput(outputs, None)
            self.processor.process_outputs(group, [output])
            for seq in group.seqs:
                if seq.is_finished() and seq.seq_id not in over:
                    yield [self.name(group, seq.seq_id), reasons(seq.status)]
        self.scheduler.free_finished_seq_groups()


# ---------------------------------------------------------------------------------------------------------------------
# Files


def dump(trace: Json) -> str:
    return json.dumps(trace, separators=(",", ":"))


def path_of(folder: Path, kind: str) -> Path:
    return folder / f"vllm-{VLLM_VERSION}" / f"{kind}.jsonl.gz"


def record(vllm: Vllm, out: Path, first_seed: int) -> None:
    for kind, number in (("single", NUM_SINGLE), ("forked", NUM_FORKED)):
        traces = [Run(vllm, draw_scenario(kind, first_seed + i)).record() for i in range(number)]
        path = path_of(out, kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(dump(trace) + "\n" for trace in traces)
        path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        rules = Counter(rule for trace in traces for rule in trace["exercises"])
        ends = Counter(trace.get("ends", "complete") for trace in traces)
        num_steps = sum(len(trace["steps"]) for trace in traces)
        print(
            f"{kind}: seeds {first_seed} to {first_seed + number - 1}, {num_steps} steps, {path.stat().st_size} bytes"
        )
        print(f"  traces that exercise a rule: {dict(sorted(rules.items()))}\n  ends: {dict(ends)}")


def check(vllm: Vllm, folder: Path) -> int:
    """Run every recorded scenario again; return how many come out differently."""
    num_traces = num_different = 0
    for kind in ("single", "forked"):
        for line in gzip.decompress(path_of(folder, kind).read_bytes()).decode().splitlines():
            trace = json.loads(line)
            scenario = {key: trace[key] for key in ("name", "category", "config", "requests", "aborts")}
            num_traces += 1
            if json.loads(dump(Run(vllm, scenario).record())) != trace:
                num_different += 1
                print(f"{trace['name']} comes out differently")
    print(f"{num_traces} traces run again in vLLM {VLLM_VERSION}, {num_different} differ")
    return num_different or not num_traces


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Record the decisions of vLLM V0's scheduler (see the head of this file)."
    )
    parser.add_argument("--vllm", type=Path, required=True, metavar="FOLDER", help="the unpacked wheel")
    parser.add_argument("--out", type=Path, help="folder to write to, usually traces/")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="run the recorded scenarios again and compare")
    parser.add_argument("--first-seed", type=int, default=0)
    args = parser.parse_args()
    if (args.out is None) == (args.check is None):
        parser.error("say --out FOLDER or --check FOLDER")
    vllm = Vllm(args.vllm)
    if args.check:
        return int(bool(check(vllm, args.check)))
    record(vllm, args.out, args.first_seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
