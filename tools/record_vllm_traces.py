#!/usr/bin/env python3
"""Record what the real vLLM 0.33.0 scheduler decides, as traces that mini_vllm is replayed against.

vLLM's own Scheduler and KVCacheManager run here on the CPU, without a GPU and without a model: a fake model makes
up the tokens. Nothing in vLLM is changed, it is only watched. Everything is seeded, so that the same command
writes the same files, byte for byte.

    python tools/record_vllm_traces.py --out traces/          record (about two minutes)
    python tools/record_vllm_traces.py --check traces/        run the recorded scenarios again and compare

Install once, in a virtual environment of its own (Python 3.11 or later; vLLM's wheel pins another torch than the one
used here, pip warns and it works):

    python3 -m venv VENV && . VENV/bin/activate
    pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu
    pip install --no-deps vllm==0.33.0
    pip install "pydantic>=2.12" "transformers>=5.16.1,<5.21" "huggingface_hub>=1.31" msgspec cachetools cbor2 blake3 \\
        prometheus_client numpy psutil regex pyzmq cloudpickle py-cpuinfo orjson pybase64 requests tqdm pyyaml einops \\
        protobuf safetensors pillow "openai>=2.25" partial-json-parser aiohttp openai_harmony uvloop xgrammar fastapi \\
        llguidance

How it works: for every category a generator draws many scenarios (a config, requests, aborts); each is run; a watcher
counts the rules that it exercises (a preemption, a prefix hit on a block that a request holds, a refusal by the
watermark, ...); then traces are kept as long as they show a rule in a strength that few of those kept show. The schema
is in traces/README.md.

Left out: scenarios in which vLLM 0.33.0 leaves the hash of a block in its cache that was never computed (priority
policy: the victim had been scheduled in the same step). A few of those that then read the stale block are kept in
quirk.jsonl, where "kv_violations" says which reads were wrong. mini_vllm must not do the same.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.update(
    VLLM_TARGET_DEVICE="cpu",
    VLLM_LOGGING_LEVEL="ERROR",
    VLLM_NO_USAGE_STATS="1",
    VLLM_USE_V2_MODEL_RUNNER="0",  # keeps resumed requests apart from new ones in SchedulerOutput
    HF_HUB_OFFLINE="1",
    OMP_NUM_THREADS="1",
)

VLLM_VERSION = "0.33.0"
SCHEMA_VERSION = 1
EOS = 0
MASK64 = (1 << 64) - 1

Json = dict[str, Any]


def sample_token(seed: int, position: int, vocab_size: int) -> int:
    """The fake model: the token at index `position` of a request. It knows nothing but the request's seed."""
    x = (seed * 0x9E3779B97F4A7C15 + position * 0xBF58476D1CE4E5B9) & MASK64
    x ^= x >> 31
    x = (x * 0x94D049BB133111EB) & MASK64
    x ^= x >> 29
    return x % vocab_size


# ---------------------------------------------------------------------------------------------------------------------
# Scenarios


Range = tuple[int, int]  # inclusive at both ends


@dataclass(frozen=True)
class Shape:
    """What the scenarios of a category look like. Ranges are drawn uniformly, tuples of choices too."""

    block_size: tuple[int, ...] = (1, 2, 3, 4, 5, 8, 16)
    num_requests: Range = (4, 10)
    prompt: Range = (1, 40)
    max_tokens: Range = (1, 14)
    max_num_seqs: Range = (2, 8)
    budget: Range = (8, 64)
    threshold: tuple[int, ...] = (0,)
    chunked: bool = True
    caching: tuple[bool, ...] = (True,)
    policy: str = "fcfs"
    priorities: Range = (0, 0)
    reserve: tuple[bool, ...] = (True,)
    watermark: tuple[float, ...] = (0.0,)
    memory: tuple[float, float] = (1.2, 2.0)  # blocks of the pool as a share of what all requests together would fill
    gap: Range = (0, 3)  # steps between two arrivals
    idle: float = 0.05  # chance of a long pause before an arrival
    num_prefixes: int = 0  # how many prefixes the prompts share
    prefix: Range = (4, 32)
    twins: float = 0.0  # chance that a request is a copy of an earlier one, seed included
    turns: float = 0.0  # chance that a prompt is an earlier prompt + its output + something new
    ignore_eos: float = 0.5
    aborts: float = 0.0  # chance of an abort for each request
    vocab_size: tuple[int, ...] = (30, 100)
    focus: tuple[str, ...] = ()  # a trace is kept only if it exercises one of these rules
    low_first: bool = False  # arrivals in order of falling urgency: a later request preempts an earlier one


CATEGORIES: dict[str, Shape] = {
    "no_pressure": Shape(budget=(16, 128)),
    "tight_memory": Shape(memory=(0.2, 0.5), max_tokens=(4, 24), reserve=(True, True, False)),
    "shared_prefix": Shape(num_prefixes=2, twins=0.15, memory=(0.5, 1.0), block_size=(1, 2, 3, 4, 8), prompt=(1, 24)),
    "evicted_prefix": Shape(num_prefixes=3, twins=0.25, memory=(0.15, 0.35), max_num_seqs=(1, 3), num_requests=(6, 12)),
    "long_prefill": Shape(threshold=(3, 5, 8, 16), prompt=(10, 80), memory=(0.4, 1.2), num_requests=(3, 8)),
    "no_chunked_prefill": Shape(
        chunked=False,
        threshold=(0, 0, 7),
        memory=(0.4, 1.6),
        twins=0.1,
        gap=(0, 1),
        prompt=(4, 30),
        max_tokens=(1, 8),
        focus=("head_too_long_unchunked",),
    ),
    "priority": Shape(policy="priority", priorities=(0, 3), memory=(0.25, 0.8), max_tokens=(4, 20), aborts=0.05),
    "priority_directed": Shape(
        policy="priority",
        priorities=(0, 4),
        low_first=True,
        memory=(0.25, 0.5),
        max_tokens=(6, 20),
        threshold=(0, 2, 3, 5),
        reserve=(True, False),
        caching=(True, False, False),
        gap=(1, 2),
        prompt=(4, 30),
        block_size=(1, 2, 3, 4, 6),
        focus=("preempt_scheduled_this_step", "preempt_not_last"),
    ),
    "priority_prefill": Shape(
        policy="priority",
        priorities=(0, 4),
        low_first=True,
        memory=(0.2, 0.6),
        threshold=(3, 5, 8),
        budget=(6, 20),
        max_num_seqs=(3, 6),
        num_requests=(4, 8),
        prompt=(8, 50),
        max_tokens=(2, 12),
        reserve=(False, False, True),
        caching=(False, False, True),
        gap=(0, 2),
        block_size=(1, 2, 3, 4, 8),
        focus=("preempt_scheduled_this_step",),
    ),
    "block_sizes": Shape(
        block_size=tuple(range(1, 17)), memory=(0.35, 0.9), num_prefixes=1, prompt=(1, 50), prefix=(8, 40)
    ),
    "max_num_seqs_1": Shape(
        max_num_seqs=(1, 1), budget=(1, 24), memory=(0.15, 0.6), twins=0.3, prompt=(1, 24), threshold=(0, 0, 4)
    ),
    "aborts": Shape(
        aborts=0.5,
        memory=(0.2, 0.7),
        max_tokens=(4, 20),
        num_prefixes=1,
        twins=0.1,
        focus=("abort_during", "abort_waiting", "abort_preempted", "abort_running"),
    ),
    "watermark": Shape(
        watermark=(0.05, 0.1, 0.2, 0.35, 0.5),
        memory=(0.15, 0.9),
        reserve=(True, False),
        max_tokens=(2, 16),
        twins=0.1,
        gap=(0, 2),
        focus=("refused_watermark", "admitted_into_watermark"),
    ),
    "chunk_reserve": Shape(reserve=(False,), memory=(0.25, 0.6), budget=(4, 24), max_tokens=(4, 16), twins=0.15),
    "multi_turn": Shape(turns=0.7, memory=(0.3, 0.9), gap=(1, 8), prompt=(3, 20), block_size=(1, 2, 3, 4, 8)),
    "tight_budget": Shape(budget=(1, 9), max_num_seqs=(1, 6), prompt=(1, 30), memory=(0.4, 1.5), threshold=(0, 3)),
    "no_caching": Shape(caching=(False,), memory=(0.25, 0.7), twins=0.2, max_tokens=(4, 20), threshold=(0, 0, 6)),
    "mixed": Shape(
        num_requests=(6, 14),
        threshold=(0, 4, 9),
        memory=(0.2, 0.7),
        num_prefixes=2,
        twins=0.15,
        turns=0.15,
        aborts=0.12,
        watermark=(0.0, 0.0, 0.1),
        reserve=(True, True, False),
        priorities=(0, 2),
        caching=(True, True, True, False),
    ),
}


def draw_quirk(name: str) -> Json:
    """A scenario in which vLLM may read a block that was never computed.

    B, not urgent, is prefilled in chunks of several blocks; A, urgent, is admitted behind it and asks for a block
    in the very step in which B's next chunk took the last one. B is preempted, its hashes of that chunk stay.
    D keeps B from being alone, because a lone request ignores the threshold.
    """
    rng = random.Random(name)
    block_size, chunk, a_blocks, a_step = rng.randint(2, 4), rng.randint(2, 4), rng.randint(1, 3), rng.randint(1, 3)
    b_tokens = (a_step + 2) * chunk * block_size + rng.randint(0, block_size)
    usable = (a_step + 2) * chunk + a_blocks + rng.randint(0, 1)
    requests = [
        _request("D", 0, [7] * rng.randint(1, 2), 1, 0, rng),
        _request("B", 0, [rng.randrange(1, 100) for _ in range(b_tokens)], rng.randint(1, 3), 5, rng),
        _request("A", a_step, [rng.randrange(1, 100) for _ in range(a_blocks * block_size)], rng.randint(2, 5), 0, rng),
    ]
    config = {
        "block_size": block_size,
        "num_blocks": usable + 1,
        "max_num_seqs": 4,
        "max_num_batched_tokens": 2 * chunk * block_size + 8,
        "long_prefill_token_threshold": chunk * block_size,
        "enable_chunked_prefill": True,
        "enable_prefix_caching": True,
        "policy": "priority",
        "max_model_len": usable * block_size,
        "scheduler_reserve_full_isl": True,
        "watermark": 0.0,
        "vocab_size": 100,
        "eos_token_id": EOS,
    }
    return {"name": name, "category": "quirk", "config": config, "requests": requests, "aborts": []}


def draw_scenario(name: str, category: str, shape: Shape) -> Json:
    """The scenario of that name, always the same one."""
    rng = random.Random(name)
    if category == "mixed":
        shape = replace(shape, policy=rng.choice(("fcfs", "fcfs", "priority")), chunked=rng.random() < 0.8)
    block_size, vocab_size = rng.choice(shape.block_size), rng.choice(shape.vocab_size)
    requests = _draw_requests(rng, shape, vocab_size)
    longest_prompt = max(len(r["prompt"]) for r in requests)
    longest = max(len(r["prompt"]) + r["max_tokens"] for r in requests)
    max_model_len = longest if rng.random() < 0.8 else rng.randint(longest_prompt + 1, longest)
    demand = sum(-(-(len(r["prompt"]) + r["max_tokens"]) // block_size) for r in requests)
    usable = max(-(-max_model_len // block_size), int(demand * rng.uniform(*shape.memory)))
    max_num_seqs = rng.randint(*shape.max_num_seqs)
    budget = rng.randint(*shape.budget) if shape.chunked else max_model_len + rng.randint(0, 8)
    config = {
        "block_size": block_size,
        "num_blocks": usable + 1,
        "max_num_seqs": max_num_seqs,
        "max_num_batched_tokens": max(budget, max_num_seqs),
        "long_prefill_token_threshold": rng.choice(shape.threshold),
        "enable_chunked_prefill": shape.chunked,
        "enable_prefix_caching": rng.choice(shape.caching),
        "policy": shape.policy,
        "max_model_len": max_model_len,
        "scheduler_reserve_full_isl": rng.choice(shape.reserve),
        "watermark": rng.choice(shape.watermark),
        "vocab_size": vocab_size,
        "eos_token_id": EOS,
    }
    aborts = _draw_aborts(rng, shape, requests)
    return {"name": name, "category": category, "config": config, "requests": requests, "aborts": aborts}


def _draw_requests(rng: random.Random, shape: Shape, vocab_size: int) -> list[Json]:
    def tokens(length: int) -> list[int]:
        return [rng.randrange(1, vocab_size) for _ in range(length)]

    prefixes = [tokens(rng.randint(*shape.prefix)) for _ in range(shape.num_prefixes)]
    requests: list[Json] = []
    step = 0
    for i in range(rng.randint(*shape.num_requests)):
        step += rng.randint(*shape.gap) + (rng.randint(20, 40) if rng.random() < shape.idle else 0)
        seed, prompt = rng.randrange(1000), tokens(rng.randint(*shape.prompt))
        max_tokens, ignore_eos = rng.randint(*shape.max_tokens), rng.random() < shape.ignore_eos
        kind, earlier = rng.random(), rng.choice(requests) if requests else None
        if earlier and kind < shape.twins:
            prompt = earlier["prompt"] + (tokens(rng.randint(0, 5)) if rng.random() < 0.3 else [])
            seed = earlier["sample_seed"] if rng.random() < 0.7 else seed
        elif earlier and kind < shape.twins + shape.turns:
            prompt = earlier["prompt"] + _output_of(earlier, vocab_size) + tokens(rng.randint(1, 6))
        elif prefixes and rng.random() < 0.8:
            prefix = rng.choice(prefixes)
            prompt = prefix[: rng.randint(1, len(prefix))] + prompt if rng.random() < 0.4 else prefix + prompt
        request = _request(f"r{i}", step, prompt, max_tokens, rng.randint(*shape.priorities), rng)
        ties = {"arrival_time": float(i - (rng.random() < 0.1))}
        requests.append(request | ties | {"ignore_eos": ignore_eos, "sample_seed": seed})
    if shape.low_first:
        for request, priority in zip(requests, sorted((r["priority"] for r in requests), reverse=True), strict=True):
            request["priority"] = priority
    return requests


def _request(request_id: str, step: int, prompt: list[int], max_tokens: int, priority: int, rng: random.Random) -> Json:
    return {
        "id": request_id,
        "arrival_step": step,
        "arrival_time": float(step),
        "prompt": prompt,
        "max_tokens": max_tokens,
        "priority": priority,
        "ignore_eos": True,
        "sample_seed": rng.randrange(1000),
    }


def _output_of(request: Json, vocab_size: int) -> list[int]:
    """What the fake model will say, unless it is interrupted."""
    output: list[int] = []
    while len(output) < request["max_tokens"] and not (output[-1:] == [EOS] and not request["ignore_eos"]):
        output.append(sample_token(request["sample_seed"], len(request["prompt"]) + len(output), vocab_size))
    return output


def _draw_aborts(rng: random.Random, shape: Shape, requests: list[Json]) -> list[Json]:
    return [
        {"step": r["arrival_step"] + rng.randint(0, 14), "phase": rng.choice(("before", "during")), "id": r["id"]}
        for r in requests
        if rng.random() < shape.aborts
    ]


# ---------------------------------------------------------------------------------------------------------------------
# vLLM


class Vllm:
    """The parts of vLLM that are used, imported once; the model config (slow) is made once."""

    def __init__(self, model_dir: Path) -> None:
        fake_model = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "num_hidden_layers": 2,
            "vocab_size": 32000,
            "max_position_embeddings": 1_000_000,
            "torch_dtype": "float16",
        }
        (model_dir / "config.json").write_text(json.dumps(fake_model))
        import torch
        import vllm
        from vllm import config, sampling_params
        from vllm.utils import hashing
        from vllm.v1 import kv_cache_interface, outputs, request, structured_output
        from vllm.v1.core import kv_cache_utils, single_type_kv_cache_manager
        from vllm.v1.core.sched import scheduler

        if vllm.__version__ != VLLM_VERSION:
            raise SystemExit(f"these are traces of vLLM {VLLM_VERSION}, but {vllm.__version__} is installed")
        logging.getLogger("vllm").setLevel(logging.ERROR)
        kv_cache_utils.init_none_hash(hashing.sha256)
        self.torch, self.config, self.kv, self.request, self.outputs = (
            torch,
            config,
            kv_cache_interface,
            request,
            outputs,
        )
        self.sampling_params, self.hashing, self.kv_cache_utils = sampling_params, hashing, kv_cache_utils
        self.structured_output, self.managers = structured_output, single_type_kv_cache_manager
        self.scheduler_cls = scheduler.Scheduler
        self.model_config = config.ModelConfig(
            model=str(model_dir), dtype="float16", seed=0, skip_tokenizer_init=True, max_model_len=512
        )

    def make_scheduler(self, c: Json) -> Any:
        """A plain vLLM scheduler."""
        self.model_config.max_model_len = c["max_model_len"]
        scheduler_config = self.config.SchedulerConfig(
            max_num_seqs=c["max_num_seqs"],
            max_num_batched_tokens=c["max_num_batched_tokens"],
            max_model_len=c["max_model_len"],
            long_prefill_token_threshold=c["long_prefill_token_threshold"],
            enable_chunked_prefill=c["enable_chunked_prefill"],
            async_scheduling=False,
            is_encoder_decoder=False,
            policy=c["policy"],
            watermark=c["watermark"],
            scheduler_reserve_full_isl=c["scheduler_reserve_full_isl"],
        )
        cache_config = self.config.CacheConfig(
            block_size=c["block_size"], cache_dtype="auto", enable_prefix_caching=c["enable_prefix_caching"]
        )
        vllm_config = self.config.VllmConfig(
            scheduler_config=scheduler_config,
            model_config=self.model_config,
            cache_config=cache_config,
            parallel_config=self.config.ParallelConfig(),
        )
        spec = self.kv.FullAttentionSpec(
            block_size=c["block_size"], num_kv_heads=1, head_size=1, dtype=self.torch.float32
        )
        kv_cache_config = self.kv.KVCacheConfig(
            num_blocks=c["num_blocks"],
            kv_cache_tensors=[],
            kv_cache_groups=[self.kv.KVCacheGroupSpec(["layer"], spec)],
        )
        cache_config.num_gpu_blocks = c["num_blocks"]
        self.managers.register_all_kvcache_specs(vllm_config)
        scheduler = self.scheduler_cls(
            vllm_config=vllm_config,
            kv_cache_config=kv_cache_config,
            block_size=c["block_size"],
            log_stats=True,
            structured_output_manager=self.structured_output.StructuredOutputManager(vllm_config),
        )
        scheduler.use_v2_model_runner = False
        self._assert_config(scheduler, c)
        return scheduler

    @staticmethod
    def _assert_config(scheduler: Any, c: Json) -> None:
        """vLLM's config machinery changed nothing that was asked for."""
        manager = scheduler.kv_cache_manager
        assert scheduler.max_num_running_reqs == c["max_num_seqs"]
        assert scheduler.max_num_scheduled_tokens == c["max_num_batched_tokens"]
        assert scheduler.scheduler_config.long_prefill_token_threshold == c["long_prefill_token_threshold"]
        assert scheduler.scheduler_config.enable_chunked_prefill == c["enable_chunked_prefill"]
        assert scheduler.scheduler_reserve_full_isl == c["scheduler_reserve_full_isl"]
        assert scheduler.policy.value == c["policy"]
        assert scheduler.max_model_len == c["max_model_len"]
        assert scheduler.block_size == scheduler.hash_block_size == c["block_size"]
        assert scheduler.num_lookahead_tokens == scheduler.num_spec_tokens == 0
        assert scheduler.connector is None
        assert manager.enable_caching == c["enable_prefix_caching"]
        assert manager.watermark_blocks == int(c["watermark"] * c["num_blocks"])

    def make_request(self, r: Json, c: Json) -> Any:
        params = self.sampling_params.SamplingParams(
            temperature=0.0, max_tokens=r["max_tokens"], ignore_eos=r["ignore_eos"]
        )
        params.update_from_generation_config({}, c["eos_token_id"])
        hasher = None
        if c["enable_prefix_caching"]:
            hasher = self.kv_cache_utils.get_request_block_hasher(c["block_size"], self.hashing.sha256)
        return self.request.Request(
            request_id=r["id"],
            prompt_token_ids=list(r["prompt"]),
            sampling_params=params,
            pooling_params=None,
            arrival_time=r["arrival_time"],
            priority=r["priority"],
            block_hasher=hasher,
        )

    def model_output(self, sampled: dict[str, list[int]]) -> Any:
        return self.outputs.ModelRunnerOutput(
            req_ids=list(sampled),
            req_id_to_index={request_id: i for i, request_id in enumerate(sampled)},
            sampled_token_ids=list(sampled.values()),
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )


class Shadow:
    """What every slot holds: the tokens up to and with its own. Finds steps that read something else."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.slots: dict[tuple[int, int], int] = {}
        self.violations: list[Json] = []

    def execute(self, step: int, spans: list[tuple[str, list[int], list[int], int, int]]) -> None:
        """Run (id, block table, tokens, start, end) of each request: all of a step's writes come before its reads."""
        contents = [
            list(itertools.accumulate(tokens[:end], self._mix, initial=1))[1:] for _, _, tokens, _, end in spans
        ]
        for (_, table, _, start, end), content in zip(spans, contents, strict=True):
            for p in range(start, end):
                self.slots[table[p // self.block_size], p % self.block_size] = content[p]
        for (request_id, table, _, _, end), content in zip(spans, contents, strict=True):
            for p in range(end):
                if self.slots.get((table[p // self.block_size], p % self.block_size)) != content[p]:
                    self.violations.append({"step": step, "id": request_id, "pos": p})
                    break

    @staticmethod
    def _mix(state: int, token: int) -> int:
        return ((state ^ (token + 1)) * 0x100000001B3 + 1) & MASK64


@dataclass
class Ask:
    """One call of allocate_slots in this step."""

    request_id: str
    num_tokens: int
    granted: bool


@dataclass
class Watcher:
    """Counts the rules that a run exercises. It looks at vLLM's objects and changes none of them."""

    scheduler: Any
    config: Json
    counts: Counter[str] = field(default_factory=Counter)
    asks: list[Ask] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)
    in_flight: set[int] = field(default_factory=set)
    suspects: list[tuple[Any, Any]] = field(default_factory=list)  # (block, hash) published, then taken out of the step
    never_computed: bool = False

    def __post_init__(self) -> None:
        manager = self.scheduler.kv_cache_manager
        self.manager, self.pool = manager, manager.block_pool
        self._allocate, manager.allocate_slots = manager.allocate_slots, self._on_allocate
        self._preempt, self.scheduler._preempt_request = self.scheduler._preempt_request, self._on_preempt
        self._evict, self.pool._maybe_evict_cached_block = self.pool._maybe_evict_cached_block, self._on_evict

    def start_step(self) -> None:
        self.asks, self.preempted, self.in_flight, self.suspects = [], [], set(), []
        self.num_unfinished = self.scheduler.get_num_unfinished_requests()

    def _on_allocate(self, request: Any, num_new_tokens: int, **options: Any) -> Any:
        hit_blocks = options.get("new_computed_blocks")
        hits = list(hit_blocks.blocks[0]) if hit_blocks is not None else []
        refs = [block.ref_cnt for block in hits]
        admission = request.status.name != "RUNNING"
        refusal = self._predict_refusal(request, num_new_tokens, refs, options) if admission else None
        blocks = self._allocate(request, num_new_tokens, **options)
        assert not admission or (blocks is None) == (refusal is not None), "the watcher misunderstands a refusal"
        self.asks.append(Ask(request.request_id, num_new_tokens, blocks is not None))
        if blocks is None:
            self.counts[refusal or "no_block_for_running"] += 1
            return None
        for block, ref_cnt in zip(hits, refs, strict=True):
            self.counts["hit_free_block" if ref_cnt == 0 else "hit_held_block"] += 1
            self.counts["hit_block_of_this_step"] += block.block_id in self.in_flight
        start = request.num_computed_tokens + len(hits) * self.config["block_size"]
        table = self.manager.get_block_ids(request.request_id)[0]
        self.in_flight.update(table[start // self.config["block_size"] :])
        return blocks

    def _predict_refusal(self, request: Any, num_new_tokens: int, refs: list[int], options: Json) -> str | None:
        size, free = int(self.config["block_size"]), int(self.pool.get_num_free_blocks())
        spare = self.manager.watermark_blocks if options.get("has_scheduled_reqs", True) else 0

        def needed(num_tokens: int) -> int:
            return -(-num_tokens // size) - len(refs) + refs.count(0)

        chunk = needed(len(refs) * size + num_new_tokens)
        whole = needed(request.num_tokens) if options.get("full_sequence_must_fit") else chunk
        if max(chunk, whole) + spare <= free:
            self.counts["admitted_into_watermark"] += max(chunk, whole) + self.manager.watermark_blocks > free
            return None
        if max(chunk, whole) <= free:
            return "refused_watermark"
        return "refused_full_sequence" if chunk + spare <= free else "refused_chunk"

    def _on_preempt(self, request: Any, *args: Any, **kwargs: Any) -> None:
        asker, victim = self.asks[-1].request_id, request.request_id
        self.preempted.append(victim)
        self.counts["preempt"] += 1
        self.counts["preempt_self"] += victim == asker
        mine = [ask.num_tokens for ask in self.asks if ask.request_id == victim and ask.granted]
        self.counts["preempt_scheduled_this_step"] += bool(mine)
        self.counts["preempt_returns_many_tokens"] += sum(mine) > 1
        running = [r.request_id for r in self.scheduler.running]
        self.counts["preempt_not_last"] += victim in running or bool(mine)
        self.counts["preempt_mid_prefill"] += request.num_computed_tokens < request.num_prompt_tokens
        self.counts["preempt_again"] += request.num_preemptions > 0
        blocks = self.manager.get_blocks(victim).blocks[0]
        first = request.num_computed_tokens // self.config["block_size"]
        self.suspects += [(b, b.block_hash) for b in blocks[first:] if b.block_hash is not None]
        self._preempt(request, *args, **kwargs)

    def _on_evict(self, block: Any) -> bool:
        twins = self.pool.cached_block_hash_to_block._cache.get(block.block_hash)
        self.counts["evict_one_of_equals"] += isinstance(twins, dict) and len(twins) > 1
        evicted = bool(self._evict(block))
        self.counts["evict_cached_block"] += evicted
        return evicted

    def end_schedule(self, num_scheduled: dict[str, int], live: dict[str, Any]) -> None:
        """Look at a decided step. vLLM has advanced num_computed_tokens already."""
        c, counts, scheduler = self.config, self.counts, self.scheduler
        threshold, budget_left = c["long_prefill_token_threshold"], c["max_num_batched_tokens"]
        for request_id, n in num_scheduled.items():
            request = live[request_id]
            missing = request.num_tokens - request.num_computed_tokens
            budget_left -= n
            if threshold and missing and n == threshold and self.num_unfinished > 1:
                counts["cap_by_threshold"] += 1
                counts["cap_by_threshold_unchunked"] += not c["enable_chunked_prefill"]
            elif missing:
                counts["cap_by_budget"] += 1
            if threshold and n > threshold:
                counts["lone_request_over_threshold"] += 1
        counts["running_without_budget"] += any(r.request_id not in num_scheduled for r in scheduler.running)
        counts["empty_step"] += not num_scheduled
        counts["many_victims"] += len(self.preempted) > 1
        if scheduler.waiting and not self.preempted and budget_left and self.asks and self.asks[-1].granted:
            full = len(scheduler.running) >= c["max_num_seqs"]
            counts["blocked_by_max_num_seqs" if full else "head_too_long_unchunked"] += 1
        counts["no_admission_after_preemption"] += bool(self.preempted) and budget_left > 0
        self.never_computed |= any(block.block_hash == hash_ for block, hash_ in self.suspects)
        twins = self.pool.cached_block_hash_to_block._cache.values()
        counts["equal_blocks"] = max(counts["equal_blocks"], sum(isinstance(b, dict) and len(b) > 1 for b in twins))

    def admitted(self, request: Any, hit: int, resumed: bool) -> None:
        size, cap = self.config["block_size"], (request.num_tokens - 1) // self.config["block_size"]
        self.counts["resume"] += resumed
        if hit:
            self.counts["hit_resumed" if resumed else "hit_new"] += 1
            self.counts["hit_generated_tokens"] += resumed and hit > request.num_prompt_tokens
            self.counts["hit_capped_at_last_token"] += request.num_tokens % size == 0 and hit == cap * size
            self.counts["hit_partial"] += hit < cap * size
        urgency = (request.priority, request.arrival_time)
        waiting = self.scheduler.waiting
        self.counts["priority_overtakes"] += any(
            w.arrival_time < urgency[1] and w.priority > urgency[0] for w in waiting
        )

    def aborted(self, request: Any, phase: str) -> None:
        self.counts[f"abort_{'during' if phase == 'during' else request.status.name.lower()}"] += 1

    def finished(self, request: Any, reason: str) -> None:
        c = self.config
        self.counts[f"finish_{reason}"] += 1
        full = request.num_tokens % c["block_size"] == 0
        self.counts["finish_on_full_block"] += full and c["enable_prefix_caching"]
        at_length = request.num_output_tokens == request.max_tokens
        self.counts["eos_on_last_token"] += reason == "stop" and at_length
        self.counts["finish_at_max_model_len"] += reason == "length" and not at_length


class LivelockError(Exception):
    """vLLM gets nowhere: equal requests preempt one another without end (full-sequence reservation switched off)."""


@dataclass
class Run:
    """One scenario in vLLM: the driver loop, which traces/README.md describes step by step."""

    vllm: Vllm
    scenario: Json

    def __post_init__(self) -> None:
        self.config = self.scenario["config"]
        self.scheduler = self.vllm.make_scheduler(self.config)
        self.manager = self.scheduler.kv_cache_manager
        self.pool = self.manager.block_pool
        self.watcher = Watcher(self.scheduler, self.config)
        self.shadow = Shadow(self.config["block_size"])
        self.seeds = {r["id"]: r["sample_seed"] for r in self.scenario["requests"]}
        self.live: dict[str, Any] = {}
        self.totals: Counter[str] = Counter()

    def record(self, max_steps: int = 1000) -> Json:
        arrivals = sorted(self.scenario["requests"], key=lambda r: r["arrival_step"])
        steps: list[Json] = []
        step = 0
        while self.scheduler.get_num_unfinished_requests() or arrivals:
            if not self.scheduler.get_num_unfinished_requests():
                self.watcher.counts["idle_jump"] += arrivals[0]["arrival_step"] > step
                step = max(step, arrivals[0]["arrival_step"])
            if step > max_steps:
                raise LivelockError(f"{self.scenario['name']} does not end")
            steps.append(self._step(step, arrivals))
            step += 1
        assert self.pool.get_num_free_blocks() == self.config["num_blocks"] - 1
        return self._trace(steps)

    def _step(self, step: int, arrivals: list[Json]) -> Json:
        record: Json = {"step": step}
        self._abort(step, "before", record)
        while arrivals and arrivals[0]["arrival_step"] <= step:
            r = arrivals.pop(0)
            self.live[r["id"]] = self.vllm.make_request(r, self.config)
            self.scheduler.add_request(self.live[r["id"]])
        self.watcher.start_step()
        output = self.scheduler.schedule()
        assert set(self.watcher.preempted) == set(output.preempted_req_ids or ())
        self._note_schedule(output, record)
        self.watcher.end_schedule(output.num_scheduled_tokens, self.live)
        sampled = self._execute(step, output.num_scheduled_tokens)
        self._abort(step, "during", record)
        self._note_update(self.scheduler.update_from_output(output, self.vllm.model_output(sampled)), record)
        return record

    def _abort(self, step: int, phase: str, record: Json) -> None:
        """One call an id: with many ids vLLM walks over a set, whose order is anybody's guess."""
        done = []
        for abort in self.scenario["aborts"]:
            if (abort["step"], abort["phase"]) == (step, phase):
                request = self.live.get(abort["id"])
                if request is None or request.is_finished():
                    self.watcher.counts["abort_unknown"] += 1
                    continue
                self.watcher.aborted(request, phase)
                self.scheduler.finish_requests(abort["id"], self.vllm.request.RequestStatus.FINISHED_ABORTED)
                done.append(abort["id"])
        if done:
            record[f"aborted_{phase}"] = done

    def _note_schedule(self, output: Any, record: Json) -> None:
        cached = output.scheduled_cached_reqs
        new = [[r.req_id, r.num_computed_tokens] for r in output.scheduled_new_reqs]
        pairs = zip(cached.req_ids, cached.num_computed_tokens, strict=True)
        resumed = [[i, hit] for i, hit in pairs if i in cached.resumed_req_ids]
        blocks = {r.req_id: list(r.block_ids[0]) for r in output.scheduled_new_reqs}
        blocks |= {i: list(b[0]) for i, b in zip(cached.req_ids, cached.new_block_ids, strict=True) if b is not None}
        record["sched"] = [[i, n] for i, n in output.num_scheduled_tokens.items()]
        optional = {
            "new": new,
            "resumed": resumed,
            "preempted": self.watcher.preempted,
            "blocks": {i: blocks[i] for i in output.num_scheduled_tokens if i in blocks},
            "waiting": [r.request_id for r in self.scheduler.waiting],
        }
        record |= {key: value for key, value in optional.items() if value}
        record["free_sched"] = self.pool.get_num_free_blocks()
        self.totals["preemptions"] += len(self.watcher.preempted)
        stats = self.manager.prefix_cache_stats  # of this step: vLLM starts again in update_from_output
        for name in ("requests", "queries", "hits"):
            self.totals[f"prefix_{name}"] += getattr(stats, name)
            self.totals[f"preempted_{name}"] += getattr(stats, f"preempted_{name}")
        for i, hit in new + resumed:
            self.watcher.admitted(self.live[i], hit, [i, hit] in resumed)

    def _execute(self, step: int, num_scheduled: dict[str, int]) -> dict[str, list[int]]:
        spans = []
        sampled: dict[str, list[int]] = {}
        for i, n in num_scheduled.items():
            request = self.live[i]
            end = request.num_computed_tokens
            spans.append((i, self.manager.get_block_ids(i)[0], list(request.all_token_ids), end - n, end))
            token = sample_token(self.seeds[i], request.num_tokens, self.config["vocab_size"])
            sampled[i] = [token] if end >= request.num_tokens else []
        self.shadow.execute(step, spans)
        return sampled

    def _note_update(self, outputs: Any, record: Json) -> None:
        finished = [o for engine in outputs.values() for o in engine.outputs if o.finish_reason is not None]
        for o in finished:
            self.watcher.finished(self.live[o.request_id], str(o.finish_reason))
        if finished:
            record["finished"] = [[o.request_id, str(o.finish_reason)] for o in finished]
        record["free"] = self.pool.get_num_free_blocks()
        if self.config["enable_prefix_caching"]:
            record["cached"] = len(self.pool.cached_block_hash_to_block)

    def _trace(self, steps: list[Json]) -> Json:
        totals: Json = {
            key: self.totals[key]
            for key in (
                "preemptions",
                "prefix_requests",
                "prefix_queries",
                "prefix_hits",
                "preempted_requests",
                "preempted_queries",
                "preempted_hits",
            )
        }
        totals["steps"] = len(steps)
        totals["scheduled_tokens"] = sum(n for record in steps for _, n in record["sched"])
        totals["final_free_queue"] = [b.block_id for b in self.pool.free_block_queue.get_all_free_blocks()]
        trace = {"schema": SCHEMA_VERSION, **self.scenario}
        trace["exercises"] = {rule: n for rule, n in sorted(self.watcher.counts.items()) if n}
        trace["steps"] = steps
        trace["outputs"] = {i: list(request.output_token_ids) for i, request in self.live.items()}
        trace["totals"] = totals
        if self.shadow.violations:
            trace["kv_violations"] = self.shadow.violations
        return trace


# ---------------------------------------------------------------------------------------------------------------------
# Which traces are kept


def dump(trace: Json) -> str:
    """One line of a file."""
    return json.dumps(trace, separators=(",", ":"))


def strengths(trace: Json) -> set[tuple[str, int]]:
    """The rules a trace exercises, each with its order of magnitude: once, 2 or 3 times, 4 to 7 times, ..."""
    return {(rule, n.bit_length()) for rule, n in trace["exercises"].items()}


def keep_those_that_add(candidates: list[Json], focus: tuple[str, ...], at_most: int, enough: int = 5) -> list[Json]:
    """Greedy cover: again and again the trace that adds most for its size, rare rules first, until all are seen."""
    seen: Counter[tuple[str, int]] = Counter()
    drawn = Counter(s for t in candidates for s in strengths(t))
    sizes = {t["name"]: len(dump(t)) for t in candidates}
    pool, kept = list(candidates), list[Json]()

    def gain(trace: Json) -> float:
        worth = {s: (4 if s[0] in focus else 1) / drawn[s] ** 0.5 for s in strengths(trace) if seen[s] < enough}
        new = sum(w / (1 + seen[s]) for s, w in worth.items())
        return float(new / sizes[trace["name"]] ** 0.5)

    while pool and len(kept) < at_most:
        best = max(pool, key=gain)
        if gain(best) == 0:
            break
        pool.remove(best)
        kept.append(best)
        seen.update(strengths(best))
    return sorted(kept, key=lambda t: str(t["name"]))


def record_category(vllm: Vllm, category: str, num_candidates: int, at_most: int) -> tuple[list[Json], Counter[str]]:
    """Draw and run scenarios; returns the traces to keep, and why the other ones were left out."""
    shape = CATEGORIES[category]
    candidates, skipped = [], Counter[str]()
    for i in range(num_candidates):
        run = Run(vllm, draw_scenario(f"{category}_{i:03}", category, shape))
        try:
            trace = run.record()
        except LivelockError:
            skipped["vLLM does not end"] += 1
            continue
        if shape.focus and not trace["exercises"].keys() & set(shape.focus):
            continue
        if "kv_violations" in trace:
            skipped["stale read"] += 1
        elif run.watcher.never_computed:
            skipped["hash of a block never computed"] += 1
        else:
            candidates.append(trace)
    return keep_those_that_add(candidates, shape.focus, at_most), skipped


def record_quirks(vllm: Vllm, wanted: int, at_most_tried: int) -> tuple[list[Json], Counter[str]]:
    """Scenarios in which vLLM reads a block that was never computed."""
    quirks: list[Json] = []
    for i in range(at_most_tried):
        trace = Run(vllm, draw_quirk(f"quirk_{i:03}")).record()
        if "kv_violations" in trace:
            quirks.append(trace)
            if len(quirks) == wanted:
                break
    return quirks, Counter({"no stale read": i + 1 - len(quirks)})


def record(vllm: Vllm, out: Path, num_candidates: int, at_most: int) -> None:
    """Write a file for each category, and what they cover into the README beside them."""
    folder = out / f"vllm-{VLLM_VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    jobs: dict[str, Callable[[], tuple[list[Json], Counter[str]]]] = {
        category: lambda category=category: record_category(vllm, category, num_candidates, at_most)  # type: ignore[misc]
        for category in CATEGORIES
    }
    jobs["quirk"] = lambda: record_quirks(vllm, wanted=3, at_most_tried=500)
    rows, rules, total = [], defaultdict(list), 0
    for category, job in jobs.items():
        traces, skipped = job()
        text = "".join(dump(trace) + "\n" for trace in traces)
        (folder / f"{category}.jsonl").write_text(text)
        total += len(text)
        reasons = ", ".join(f"{n} {why}" for why, n in sorted(skipped.items())) or "none"
        rows.append(
            f"| {category} | {len(traces)} | {sum(len(t['steps']) for t in traces)} | {len(text):,} | {reasons} |"
        )
        print(rows[-1], flush=True)
        if category != "quirk":
            for trace in traces:
                for rule, n in trace["exercises"].items():
                    rules[rule].append(n)
    head = "| category | traces | steps | bytes | scenarios left out |\n|---|---:|---:|---:|---|\n"
    count = sum(len(list(read(path))) for path in folder.glob("*.jsonl"))
    table = head + "\n".join(rows) + f"\n\n{count} traces, {total:,} bytes.\n\n"
    table += "| rule | traces that exercise it | times |\n|---|---:|---:|\n"
    table += "".join(f"| {rule} | {len(n)} | {sum(n)} |\n" for rule, n in sorted(rules.items()))
    write_section(out / "README.md", "corpus", table)


def write_section(path: Path, name: str, text: str) -> None:
    """Replace what stands between the two marks of that name."""
    begin, end = f"<!-- {name}: written by tools, do not edit -->\n", f"<!-- end of {name} -->\n"
    page = path.read_text() if path.exists() else ""
    if begin not in page:
        page += "\n" + begin + end
    head, rest = page.split(begin)
    path.write_text(head + begin + text + end + rest.split(end)[1])


def read(path: Path) -> Iterator[Json]:
    """The traces of a file."""
    with path.open() as lines:
        yield from map(json.loads, lines)


def check(vllm: Vllm, folder: Path) -> int:
    """Run every recorded scenario again; return how many come out differently."""
    paths = sorted(folder.glob(f"vllm-{VLLM_VERSION}/*.jsonl"))
    num_traces = num_different = 0
    for path in paths:
        for trace in read(path):
            scenario = {key: trace[key] for key in ("name", "category", "config", "requests", "aborts")}
            num_traces += 1
            if json.loads(dump(Run(vllm, scenario).record())) != trace:
                num_different += 1
                print(f"{path.name}: {trace['name']} comes out differently")
    print(f"{num_traces} traces run again in vLLM {VLLM_VERSION}, {num_different} differ")
    return num_different or not num_traces


def main() -> int:
    """Parse the command line, start vLLM, record or check."""
    parser = argparse.ArgumentParser(description="Record vLLM's scheduler decisions (see the head of this file).")
    parser.add_argument("--out", type=Path, help="folder to write to, usually traces/")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="run the recorded scenarios again and compare")
    parser.add_argument("--candidates", type=int, default=300, help="scenarios drawn for each category")
    parser.add_argument("--keep", type=int, default=14, help="traces kept of each category, at most")
    args = parser.parse_args()
    if (args.out is None) == (args.check is None):
        parser.error("say --out FOLDER or --check FOLDER")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as model_dir:
        vllm = Vllm(Path(model_dir))
        print(f"vLLM {VLLM_VERSION} is up after {time.monotonic() - start:.0f} s", flush=True)
        status = 0
        if args.check:
            status = check(vllm, args.check)
        else:
            record(vllm, args.out, args.candidates, args.keep)
    print(f"{time.monotonic() - start:.0f} s")
    return int(bool(status))


if __name__ == "__main__":
    sys.exit(main())
