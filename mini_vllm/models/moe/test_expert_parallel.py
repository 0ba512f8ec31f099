"""Experts that are spread over ranks: together they give what one process gives."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import torch
from torch import Tensor

from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError
from mini_vllm.models.checkpoint import load_hf_config
from mini_vllm.models.moe.experts import RUNGS, finalise
from mini_vllm.models.registry import load_model
from mini_vllm.models.test_models import CASES, CPU, write_checkpoint
from mini_vllm.parallel.experts.shard import ExpertShard, read_loads, shard_of, write_loads
from mini_vllm.parallel.shard import Communicator, Shard

LOADS = [9.0, 1.0, 1.0, 4.0, 6.0, 0.0, 2.0, 2.0]


class Member(Communicator):
    """A rank in a thread. table: what every rank brings."""

    def __init__(self, rank: int, table: dict[int, Tensor], barrier: Barrier) -> None:
        self.rank, self.table, self.barrier = rank, table, barrier

    def all_gather(self, x: Tensor) -> Tensor:
        self.table[self.rank] = x
        self.barrier.wait(60)
        gathered = torch.stack([self.table[rank] for rank in range(self.barrier.parties)])
        self.barrier.wait(60)
        return gathered

    def all_reduce(self, x: Tensor) -> Tensor:
        return self.all_gather(x).sum(0)

    def all_to_all(self, x: Tensor) -> Tensor:
        return self.all_gather(x)[:, self.rank]


@pytest.fixture(scope="module", params=["qwen3-moe", "mixtral", "olmoe"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    write_checkpoint(folder, CASES[request.param])
    return folder


def load(path: Path, **options: Any) -> Any:
    return load_model(path, load_hf_config(path), dtype=torch.float32, device=CPU, **options)


def blocks_of(
    path: Path,
    size: int,
    num_experts: int,
    has_loads: bool = False,
    num_redundant: int = 0,
    **options: Any,
) -> list[Any]:
    """Layer 0 of every rank."""
    rest: Any = ({0: LOADS[:num_experts]} if has_loads else {}), num_redundant
    table: dict[int, Tensor] = {}
    barrier = Barrier(size)
    shards = [ExpertShard(rank, size, Member(rank, table, barrier), *rest) for rank in range(size)]
    return [load(path, shard=shard, **options).layers[0].mlp for shard in shards]


def together(blocks: Sequence[Any], x: Tensor) -> list[Tensor]:
    """What each rank makes of x."""

    def call(block: Any) -> Tensor:
        with torch.inference_mode():
            return block(x)  # type: ignore[no-any-return]

    with ThreadPoolExecutor(len(blocks)) as threads:
        return [*threads.map(call, blocks)]


@pytest.mark.parametrize(
    ("size", "rest"),
    [(2, ()), (4, ()), (2, (True,)), (2, (True, 2)), (4, (False, 5))],
)
def test_ranks_with_some_experts_each_give_what_one_process_gives(
    path: Path, size: int, rest: Any
) -> None:
    x = torch.randn(9, 48)
    whole = load(path).layers[0].mlp
    num_experts = whole.router.num_experts
    blocks = blocks_of(path, size, num_experts, *rest)
    outputs = together(blocks, x)
    with torch.inference_mode():
        torch.testing.assert_close(outputs[0], whole(x), atol=1e-5, rtol=1e-5)
        chosen = whole.router(x)[1].flatten()
    assert all(torch.equal(each, outputs[0]) for each in outputs)
    # a rank holds its experts alone, and every rank counts for all
    num_redundant = rest[-1] if len(rest) > 1 else 0
    assert sum(len(each.gate_up) for each in blocks) == num_experts + num_redundant
    counts = torch.bincount(chosen, minlength=num_experts)
    assert all(torch.equal(each.spread.loads, counts) for each in blocks)


def test_ranks_are_added_up_in_their_order_however_many_tokens_there_are() -> None:
    terms = torch.randn(4, 9, 5) * torch.tensor([1.0, 1e6, -1e6, 1e-3])[:, None, None]
    expected = ((terms[0] + terms[1]) + terms[2]) + terms[3]
    for num_tokens in (1, 4, 9):
        table: dict[int, Tensor] = {}
        barrier = Barrier(4)
        shards = [ExpertShard(rank, 4, Member(rank, table, barrier)) for rank in range(4)]
        with ThreadPoolExecutor(4) as threads:
            sums = [*threads.map(ExpertShard.combine, shards, terms[:, :num_tokens])]
        assert all(torch.equal(each, expected[:num_tokens]) for each in sums)


def test_a_norm_over_all_heads_is_that_of_one_process_where_ranks_share_keys(
    tmp_path: Path,
) -> None:
    """Of two KV heads, each is on two of four ranks."""
    write_checkpoint(tmp_path, CASES["olmoe"])
    table: dict[int, Tensor] = {}
    members = [Member(rank, table, barrier) for barrier in (Barrier(4),) for rank in range(4)]
    parts = [load(tmp_path, shard=Shard(i, 4, each)) for i, each in enumerate(members)]
    whole, *parts = (each.layers[0].self_attn for each in (load(tmp_path), *parts))
    x = torch.randn(9, 48)

    def prepared(attention: Any) -> tuple[Tensor, ...]:
        with torch.inference_mode():
            heads = attention.qkv_proj(x).unflatten(-1, (-1, attention.head_dim))
            return attention.prepared(*heads.split(attention.heads, 1))  # type: ignore[no-any-return]

    query, key, value = prepared(whole)
    with ThreadPoolExecutor(4) as threads:
        for rank, found in enumerate(threads.map(prepared, parts)):
            kv = slice(rank // 2, rank // 2 + 1)
            wanted = query[:, rank : rank + 1], key[:, kv], value[:, kv]
            torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


def test_in_eight_bits_an_expert_has_the_weights_of_one_process(path: Path) -> None:
    x = torch.randn(9, 48)
    whole = load(path, quantization="int8").layers[0].mlp
    blocks = blocks_of(path, 2, whole.router.num_experts, True, 1, quantization="int8")
    with torch.inference_mode():
        expected = whole(x)
    torch.testing.assert_close(together(blocks, x)[0], expected, atol=1e-6, rtol=1e-6)


@torch.inference_mode()
def test_every_rung_gives_nothing_for_an_expert_that_is_elsewhere(path: Path) -> None:
    block, x = load(path).layers[0].mlp, torch.randn(8, 48)
    weights, chosen = block.router(x)
    outputs = RUNGS["loop"](x, chosen, block.gate_up, block.down)
    here = chosen.where(chosen < 3, -1)  # the first three are this rank's
    wanted = finalise(outputs * (chosen < 3).view(-1, 1), weights)
    for name, run in RUNGS.items():
        if name == "triton":
            pytest.importorskip("triton")
        found = finalise(run(x, here, block.gate_up[:3], block.down[:3]), weights)
        torch.testing.assert_close(found, wanted, atol=1e-4, rtol=1e-4, msg=name)
        nothing = run(x, torch.full_like(chosen, -1), block.gate_up[:3], block.down[:3])
        assert not nothing.any(), name


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "loads.json"


def shard_with(file: Path, **options: Any) -> Any:
    options = {"enable_expert_parallel": True, "expert_loads": file, **options}
    return shard_of(EngineConfig("tiny", tensor_parallel_size=2, **options))


def test_loads_come_back_from_their_file(file: Path) -> None:
    assert read_loads(file) == {}
    write_loads(file, {0: [1, 2, 3], 7: [5, 0, 0]})
    assert [each.name for each in file.parent.iterdir()] == ["loads.json"]
    shard = shard_with(file, num_redundant_experts=1)
    assert shard == ExpertShard(0, 2, loads={0: [1, 2, 3], 7: [5, 0, 0]}, num_redundant_experts=1)
    assert shard.placement(7, 3) == ((0, 1), (0, 2))
    assert shard_with(file).placement(3, 3) == ((0, 1), (2,))  # of which there are no loads
    # loads 3 and 3 of layer 0, 5 and 0 of layer 7
    assert shard_with(file).balancedness({}) == 1
    assert ExpertShard(0, 2).balancedness({0: [1, 2, 3], 7: [5, 0, 0]}) == 5.5 / 8
    with pytest.raises(InvalidParameterError, match="layer 7 has 4 experts, and loads for 3"):
        shard.placement(7, 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "cannot be read as loads"),
        ("[1, 2]", "cannot be read as loads"),
        ('{"0": 3}', "cannot be read as loads"),
        ('{"zero": [1]}', "cannot be read as loads"),
        ("[" * 100_000, "cannot be read as loads"),
        ('{"0": [1, -1]}', "layer 0 has -1, allowed is a number"),
        ('{"0": ["1"]}', "layer 0 has '1'"),
        ('{"0": [NaN]}', "layer 0 has nan"),
        (json.dumps({"0": [True]}), "layer 0 has True"),
    ],
)
def test_a_file_of_something_else_is_refused(file: Path, content: str, message: str) -> None:
    file.write_text(content)
    with pytest.raises(InvalidParameterError, match=message):
        shard_with(file)


@pytest.mark.parametrize(
    "options",
    [
        {"enable_expert_parallel": True},
        {"tensor_parallel_size": 2, "expert_loads": "file"},
        {"tensor_parallel_size": 2, "num_redundant_experts": 1},
    ],
)
def test_options_that_need_another_one_are_refused(options: Any) -> None:
    with pytest.raises(InvalidParameterError, match="enable_expert_parallel must be False with"):
        EngineConfig("tiny", **options)
