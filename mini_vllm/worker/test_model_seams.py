"""Trials of the seams of runner and models: what a later feature needs fits beside them as they
are.

As in test_seams.py, a trial is the smallest thing that uses a seam, and no feature.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from mini_vllm import SamplingParams
from mini_vllm.attention import AttentionMetadata, AttentionSpec, PagedAttention
from mini_vllm.attention.torch_backend import TorchBackend, TorchPlan
from mini_vllm.config import EngineConfig
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.models import config_fields
from mini_vllm.models.layers import norm_c
from mini_vllm.models.layers.linear import Linear
from mini_vllm.models.layers.mlp import GatedMLP
from mini_vllm.models.qwen3 import Qwen3ForCausalLM
from mini_vllm.models.weights import WeightLoader
from mini_vllm.parallel.shard import Communicator, Shard
from mini_vllm.step import ModelInfo, StepInput, StepOutput
from mini_vllm.worker.executor import Executor, InProcessExecutor
from mini_vllm.worker.input_batch import PackedStep
from mini_vllm.worker.local_executor import LocalExecutor
from mini_vllm.worker.memory import KVCachePlan
from mini_vllm.worker.model_runner import ModelRunner

SIZES: dict[str, Any] = {"dtype": "float32", "device": "cpu", "num_kv_blocks": 24, "block_size": 4}
PARAMS = [
    SamplingParams(temperature=0, max_tokens=24, ignore_eos=True),
    SamplingParams(seed=5, max_tokens=20, ignore_eos=True),
    SamplingParams(seed=1, n=2, max_tokens=12, ignore_eos=True),
    SamplingParams(temperature=0, frequency_penalty=0.5, max_tokens=30, ignore_eos=True),
]


def answers(
    executor_cls: Callable[[EngineConfig], Executor], model: str = "tiny", **options: Any
) -> Any:
    """Tokens of chunked prefills, decodes and preemptions on a tight cache."""
    config = EngineConfig(model, **{**SIZES, "max_num_batched_tokens": 16, **options})
    engine = LLMEngine(config, executor_cls=executor_cls)  # type: ignore[arg-type]
    for i, params in enumerate(PARAMS):
        engine.add_request(str(i), list(range(20 + 3 * i, 32 + 2 * i)), params)
    done = {}
    while engine.has_unfinished_requests():
        done |= {
            o.request_id: [c.token_ids for c in o.outputs] for o in engine.step() if o.finished
        }
    assert engine.scheduler.preempted_prefix_cache_stats.requests > 0
    engine.executor.shutdown()
    return done


# --- two shards in two threads, glued by a communicator -------------------------------------------


class Meeting:
    """Where the ranks add up: all bring a term, all take the sum, in the order of their ranks."""

    def __init__(self, size: int) -> None:
        self.terms: dict[int, Tensor] = {}
        self.barrier = threading.Barrier(size, timeout=60)
        self.num_sums = 0


class Member(Communicator):
    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank = meeting, rank

    def all_reduce(self, x: Tensor) -> Tensor:
        total = self.all_gather(x).sum(0)
        self.meeting.num_sums += self.rank == 0
        return total

    def all_gather(self, x: Tensor) -> Tensor:
        self.meeting.terms[self.rank] = x
        self.meeting.barrier.wait()
        gathered = torch.stack([self.meeting.terms[rank] for rank in sorted(self.meeting.terms)])
        self.meeting.barrier.wait()
        return gathered


class TwoShards(InProcessExecutor):
    """Every call goes to both ranks; both sample, and get the same tokens."""

    def load(self) -> ModelInfo:
        self.meeting, self.threads = Meeting(2), ThreadPoolExecutor(2)
        self.ranks = [
            LocalExecutor(self.config, Shard(i, 2, Member(self.meeting, i))) for i in range(2)
        ]
        return self.both("load")

    def both(self, name: str, *arguments: Any) -> Any:
        results = [*self.threads.map(lambda rank: getattr(rank, name)(*arguments), self.ranks)]
        assert name == "available_bytes" or results[0] == results[1]
        return results[0]

    def available_bytes(self) -> int:
        return int(self.both("available_bytes"))

    def allocate(self, plan: KVCachePlan) -> None:
        self.both("allocate", plan)

    def run(self, step: StepInput) -> StepOutput:
        self.meeting.num_sums = 0
        output: StepOutput = self.both("run", step)
        # behind the embedding, and in each layer behind attention and behind the MLP
        assert self.meeting.num_sums in (0, 1 + 2 * len(self.ranks[0].model.layers))
        return output

    def shutdown(self) -> None:
        self.threads.shutdown()


def test_two_shards_give_the_tokens_of_the_whole() -> None:
    bytes_per_token = []

    class Whole(LocalExecutor):
        def load(self) -> ModelInfo:
            bytes_per_token.append((info := super().load()).bytes_per_token)
            return info

    class Halves(TwoShards):
        def load(self) -> ModelInfo:
            bytes_per_token.append((info := super().load()).bytes_per_token)
            return info

    assert answers(Halves) == answers(Whole)
    assert bytes_per_token[0] * 2 == bytes_per_token[1]


# --- a forward that is recorded once and replayed -------------------------------------------------


class Recorded(TorchDispatchMode):
    """Runs the operators that it has seen again, on the very tensors that they ran on, as a CUDA
    graph does.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, Any, Any, Any]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        self.calls.append((func, args, kwargs or {}, output))
        return output

    def replay(self) -> None:
        for func, args, kwargs, output in self.calls:
            owned = {memory(each) for each in tensors_of((args, kwargs))}
            again = func(*args, **kwargs)
            for old, new in zip(tensors_of(output), tensors_of(again), strict=True):
                if memory(old) not in owned:  # neither a view nor in place
                    old.copy_(new)


def tensors_of(tree: Any) -> list[Tensor]:
    return [each for each in torch.utils._pytree.tree_leaves(tree) if isinstance(each, Tensor)]


def memory(x: Tensor) -> int:
    return x.untyped_storage().data_ptr()


class StaticBackend(TorchBackend):
    """While it records, a decode looks at tensors alone: every shape is that of the whole table."""

    is_recording = False

    def plan(self, metadata: AttentionMetadata, spec: AttentionSpec) -> Any:
        return (metadata, spec) if self.is_recording else super().plan(metadata, spec)

    def write_kv(
        self,
        key: Tensor,
        value: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        metadata: AttentionMetadata,
    ) -> None:
        for cache, new in ((key_cache, key), (value_cache, value)):
            cache.view(-1, *cache.shape[2:]).index_copy_(0, metadata.slot_mapping, new)

    def attend(self, query: Tensor, key_cache: Tensor, value_cache: Tensor, plan: Any) -> Tensor:
        if isinstance(plan, TorchPlan):
            return super().attend(query, key_cache, value_cache, plan)
        metadata, spec = plan
        keys, values = (
            cache[metadata.block_tables.long()].flatten(1, 2).repeat_interleave(spec.group_size, 2)
            for cache in (key_cache, value_cache)
        )
        hidden = torch.arange(keys.shape[1]) >= metadata.seq_lens[:, None]
        scores = torch.einsum("bhd,bkhd->bhk", query, keys) * spec.scale
        weights = scores.masked_fill(hidden[:, None], -torch.inf).softmax(-1)
        return torch.einsum("bhk,bkhd->bhd", weights, values)


class ReplayingRunner(ModelRunner):
    """Steps of decodes alone are recorded by their number of requests; their inputs lie in buffers
    that stay.
    """

    num_replays = 0

    def _forward(self, packed: PackedStep) -> Tensor:
        (metadata,) = packed.metadata
        n, backend = len(metadata.seq_lens), self.attention_backend
        if (metadata.query_lens_cpu != 1).any():
            return super()._forward(packed)
        recorded = self.__dict__.setdefault("recorded", {})
        if n not in recorded:
            tables = torch.zeros(n, len(self.kv_caches[0][0]), dtype=torch.int32)
            static = replace(
                metadata,
                **{name: getattr(metadata, name).clone() for name in DYNAMIC},
                block_tables=tables,
            )
            recorded[n] = [Recorded(), packed.input_ids.clone(), static, None]
        graph, input_ids, static, hidden = recorded[n]
        input_ids.copy_(packed.input_ids)
        for name in DYNAMIC:
            getattr(static, name).copy_(getattr(metadata, name))
        static.block_tables[:, : metadata.block_tables.shape[1]] = metadata.block_tables
        if hidden is None:
            backend.is_recording = True  # type: ignore[attr-defined]
            with graph:
                attend = PagedAttention(
                    backend, self.kv_caches, [static], self.model.attention_specs
                )
                recorded[n][3] = self.model.forward(input_ids, static.positions, attend)
            backend.is_recording = False  # type: ignore[attr-defined]
        else:
            type(self).num_replays += 1
            graph.replay()
        return recorded[n][3]  # type: ignore[no-any-return]


DYNAMIC = ("positions", "slot_mapping", "seq_lens")


class ReplayingExecutor(LocalExecutor):
    runner_cls = ReplayingRunner

    def load(self) -> ModelInfo:
        info = super().load()
        self.attention_backend = StaticBackend()
        return info


@pytest.mark.slow
def test_a_recorded_forward_that_is_replayed_gives_the_same_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # a recorder of operators does not see a kernel in C
    monkeypatch.setattr(norm_c, "takes", lambda x: False)
    assert answers(ReplayingExecutor) == answers(LocalExecutor)
    assert ReplayingRunner.num_replays > 20


# --- a mixture of experts in the place of the MLP -------------------------------------------------


class SparseMLP(nn.Module):
    """The sum of the likeliest experts' outputs, weighted; all ranks add up once, behind the
    sum.
    """

    def __init__(self, config: Any, loader: WeightLoader) -> None:
        super().__init__()
        self.config, hidden, inner = config, config.hidden_size, config.moe_intermediate_size
        self.gate = Linear(loader, {"gate": config.num_experts}, hidden)
        self.experts = nn.ModuleList(
            GatedMLP(loader.at(f"experts.{e}"), hidden, inner, reduce=False)
            for e in range(config.num_experts)
        )
        self.communicator = loader.shard.communicator

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = (
            self.gate(x).softmax(-1, dtype=torch.float32).topk(self.config.num_experts_per_tok, -1)
        )
        if self.config.norm_topk_prob:
            weights = weights / weights.sum(-1, keepdim=True)
        output = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows, place = (chosen == e).nonzero(as_tuple=True)
            output.index_add_(0, rows, expert(x[rows]) * weights[rows, place, None])
        return self.communicator.all_reduce(output)


class Qwen3MoeForCausalLM(Qwen3ForCausalLM):
    def build_mlp(self, config: Any, loader: WeightLoader, layer_idx: int) -> nn.Module:
        return SparseMLP(config, loader)


def test_a_mixture_of_experts_gives_the_tokens_of_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"{__name__}:Qwen3MoeForCausalLM"
    monkeypatch.setattr(config_fields, "MODELS", {**config_fields.MODELS, "qwen3_moe": place})
    monkeypatch.setattr("mini_vllm.models.registry.MODELS", config_fields.MODELS)
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 131,
        "hidden_size": 48,
        "intermediate_size": 72,
        "moe_intermediate_size": 24,
    }
    heads = {
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "num_hidden_layers": 2,
    }
    experts = {
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "initializer_range": 0.15,
    }
    config = transformers.Qwen3MoeConfig(**sizes, **heads, **experts, max_position_embeddings=256)
    expected = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    expected.save_pretrained(tmp_path)
    prompts = np.random.default_rng(0).integers(0, 131, (4, 9)).tolist()
    engine = LLMEngine(EngineConfig(str(tmp_path), **SIZES))
    for i, prompt in enumerate(prompts):
        engine.add_request(
            str(i), prompt, SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
        )
    done: dict[str, Any] = {}
    while engine.has_unfinished_requests():
        done |= {o.request_id: o.outputs[0].token_ids for o in engine.step() if o.finished}
    for i, prompt in enumerate(prompts):
        greedy = expected.generate(
            torch.tensor([prompt]), max_new_tokens=8, min_new_tokens=8, do_sample=False
        )
        assert list(done[str(i)]) == greedy[0, len(prompt) :].tolist()
