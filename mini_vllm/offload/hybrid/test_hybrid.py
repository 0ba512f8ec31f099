"""Groups of layers: one pool, a block table for each group, and the tokens of transformers."""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.hybrid.groups import ChunkedLocal, FullAttention, SlidingWindow
from mini_vllm.offload.hybrid.layout import KVCacheLayout, strided_groups, tensors_of_layers
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler
from mini_vllm.step import LayerKVSpec

VOCABULARY = 50
WINDOW = 16
FULL, LOCAL = LayerKVSpec(2, 8, 4), LayerKVSpec(2, 8, 4, WINDOW)


# --- which layers make a group --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "groups", "tensors"),
    [
        ("F" * 4, (0, 0, 0, 0), (0, 1, 2, 3)),
        ("SSSSSF", (0, 1, 2, 3, 4, 5), (0,) * 6),
        ("SF" * 3, (0, 1, 0, 1, 0, 1), (0, 0, 1, 1, 2, 2)),
        # 4 is not half as many again as 3, so all of a kind are one group
        ("SSSSFFF", (0, 0, 0, 0, 1, 1, 1), (0, 1, 2, 3, 0, 1, 2)),
        ("SSSF" * 2, (0, 1, 2, 3, 0, 1, 2, 3), (0, 0, 0, 0, 1, 1, 1, 1)),
        ("FSSFS", (0, 1, 2, 0, 1), (0, 0, 0, 1, 1)),
        ("SSFSSSF", (0, 1, 3, 2, 0, 1, 3), (0, 0, 0, 0, 1, 1, 1)),
    ],
)
def test_layers_of_a_kind_are_dealt_out_to_groups_of_one_size(
    kinds: str, groups: tuple[int, ...], tensors: tuple[int, ...]
) -> None:
    found = strided_groups([FULL if kind == "F" else LOCAL for kind in kinds])
    assert found == groups
    assert tensors_of_layers(found, len(kinds)) == tensors


def test_layers_of_other_sizes_share_no_blocks() -> None:
    with pytest.raises(InvalidParameterError, match=r"layers of \[64, 128\] bytes a token cannot"):
        strided_groups([FULL, LOCAL._replace(num_kv_heads=1)])


def test_groups_save_what_is_behind_the_windows() -> None:
    specs = (LOCAL,) * 5 + (FULL,)
    layout = KVCacheLayout(specs, 4, 4, strided_groups(specs))
    whole = KVCacheLayout(specs, 4, 4)
    n = 8 * WINDOW
    assert (layout.bytes_per_block * 6, layout.num_blocks(n)) == (whole.bytes_per_block, 32 + 5 * 6)
    assert layout.num_tokens(32 + 5 * 6) == n
    assert "5 x a window of 16 tokens, 1 x full attention" in layout.describe(n)
    assert f"({1 - 62 / (6 * 32):.0%} less)" in layout.describe(n)
    assert whole.describe(n) == ""
    assert (whole.num_blocks(n), whole.num_tokens(32)) == (32, n)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ()}, r"block_size must be .* groups, \[\], got 4"),
        ({"groups": (FullAttention(8),)}, r"groups, \[8\], got 4"),
        (
            {"groups": (FullAttention(12), SlidingWindow(10, 6)), "block_size": 60},
            r"blocks of \[12, 10\] tokens have blocks of 60 in common, more than 4 times",
        ),
        ({"prefix_cache_retention_interval": 6}, r"a multiple of block_size 4, got 6"),
        ({"prefix_cache_retention_interval": -4}, r"a multiple of block_size 4, got -4"),
    ],
)
def test_groups_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    given = {"block_size": 4, "groups": (FullAttention(4),)} | options
    with pytest.raises(InvalidParameterError, match=message):
        HybridKVCacheManager(20, max_num_batched_tokens=8, **given)


# --- under the scheduler: every slot that a token sees holds its own prefix -----------------------


class Contents:
    """What the slots of the pool hold: the group that wrote it, and the tokens up to its own."""

    def __init__(self, kv: HybridKVCacheManager) -> None:
        self.kv = kv
        self.slots: dict[tuple[int, int], Any] = {}

    def compute(self, requests: Sequence[Request], num_scheduled: dict[str, int]) -> int:
        """Write the slots of a step, then read those that its tokens see. Returns the nulls."""
        num_nulls, reads = 0, []
        for request in requests:
            start = request.num_computed_tokens
            end = start + num_scheduled[request.request_id]
            tables = self.kv.get_block_tables(request.request_id)
            num_nulls += sum(table.count(0) for table in tables)
            for group, (kind, table) in enumerate(zip(self.kv.groups, tables, strict=True)):
                for i in range(kind.num_skipped_tokens(start), end):
                    slot = table[i // kind.block_size], i % kind.block_size
                    assert slot[0] != 0, "a token sees the null block"
                    content = (group, *request.all_token_ids[: i + 1])
                    reads.append((slot, content))
                    if i >= start:
                        self.slots[slot] = content
        for slot, content in reads:
            assert self.slots[slot] == content
        return num_nulls

    def check_conservation(self, requests: Sequence[Request]) -> None:
        """Each block is free or in as many tables as it is held."""
        kv = self.kv
        tables = [table for r in requests for table in kv.get_block_tables(r.request_id)]
        held = Counter(block_id for table in tables for block_id in table if block_id)
        assert [block.ref_cnt for block in kv.block_pool.blocks] == [
            held[i] for i in range(kv.num_blocks)
        ]
        kv.block_pool.check_integrity()


def test_a_group_finds_what_it_has_published_itself() -> None:
    """Equal tokens have other K and V in other layers."""
    kv = HybridKVCacheManager(
        20, 4, groups=(FullAttention(4), SlidingWindow(4, 6)), max_num_batched_tokens=9
    )
    first, again = (Request(name, range(9), SamplingParams()) for name in "ab")
    assert kv.allocate_slots(first, 9) is not None
    hits, num_tokens = kv.get_computed_blocks(again)
    assert num_tokens == 8
    assert [[block.block_id for block in blocks] for blocks in hits] == [[1, 2], [4, 5]]
    for pool in kv.pools:
        assert pool.get_cached_block(first.block_hashes[1])
    kv.pools[1].uncache_hash(first.block_hashes[1])
    assert kv.pools[0].get_cached_block(first.block_hashes[1])
    assert kv.get_computed_blocks(again)[1] == 4, "what both have"
    first.status = RequestStatus.FINISHED_STOPPED
    kv.free(first)
    kv.withdraw(first, 9)  # what a step was to write, in every group
    assert not kv.num_cached_blocks


GROUPS = {
    "two": (FullAttention(4), SlidingWindow(4, 8)),
    "three": (SlidingWindow(4, 8), FullAttention(4), SlidingWindow(4, 15)),
    "strided": (SlidingWindow(2, 7),) * 2 + (FullAttention(2),),
    "chunked": (ChunkedLocal(4, 10), FullAttention(4)),
    "one window": (SlidingWindow(4, 6),),
    "sizes": (FullAttention(4), SlidingWindow(2, 5), SlidingWindow(8, 9)),
}


def run_at_random(groups: tuple[FullAttention, ...], seed: int) -> Counter[str]:
    rng = random.Random(seed)
    budget, size = rng.choice((5, 16, 64)), max(kind.block_size for kind in groups)
    kv = HybridKVCacheManager(
        rng.randint(26, 40) * len(groups), size, groups=groups, max_num_batched_tokens=budget,
        prefix_cache_retention_interval=rng.choice((0, None, 2 * size)),
    )  # fmt: skip
    scheduler = Scheduler(
        kv, max_num_seqs=4, max_num_batched_tokens=budget, max_model_len=44,
        reserve_full_sequence=rng.random() < 0.5,
    )  # fmt: skip
    contents, seen = Contents(kv), Counter[str]()
    shared = [rng.randrange(VOCABULARY) for _ in range(20)]
    requests = []
    for i in range(8):
        own = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 8))]
        params = SamplingParams(max_tokens=rng.randint(1, 16), ignore_eos=True)
        requests.append(Request(str(i), shared[: rng.choice((0, 12, 20))] + own, params))
        scheduler.add_request(requests[-1])
    for _ in range(1000):
        if not scheduler.has_unfinished_requests():
            break
        output = scheduler.schedule()
        contents.check_conservation(requests)
        scheduled = output.scheduled_requests
        seen["nulls"] += contents.compute(scheduled, output.num_scheduled_tokens)
        seen["preemptions"] += len(output.preempted_req_ids)
        if rng.random() < 0.05:
            scheduler.fail_step(output)  # nothing of it was written
            seen["failures"] += 1
            continue
        sampled = {
            r.request_id: [rng.randrange(VOCABULARY)]
            for r in scheduled
            if r.num_computed_tokens + output.num_scheduled_tokens[r.request_id] == r.num_tokens
        }
        scheduler.update_from_output(output, sampled)
        contents.check_conservation(requests)
    assert all(request.is_finished for request in requests)
    assert kv.num_free_blocks == kv.num_usable_blocks
    assert kv.reset_prefix_cache()
    assert not kv.num_cached_blocks
    stats = scheduler.prefix_cache_stats, scheduler.preempted_prefix_cache_stats
    seen["hits"] += sum(each.hits for each in stats)
    return seen


@pytest.mark.parametrize("name", GROUPS)
def test_every_token_sees_its_own_prefix_in_every_group(name: str) -> None:
    seen = sum((run_at_random(GROUPS[name], seed) for seed in range(12)), Counter[str]())
    assert min(seen[each] for each in ("hits", "nulls", "failures")) > 0, seen


# --- through the whole engine ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def gemma(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Gemma 3 of random weights: five windows, and one layer that sees all."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    torch.manual_seed(5)
    path: Path = tmp_path_factory.mktemp("gemma")
    config = transformers.Gemma3TextConfig(
        vocab_size=96, hidden_size=32, intermediate_size=48, num_hidden_layers=6,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=256,
        initializer_range=0.3, eos_token_id=7, sliding_window=WINDOW, query_pre_attn_scalar=12,
    )  # fmt: skip
    model = transformers.Gemma3ForCausalLM(config)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data.normal_(0, 0.3)
    model.save_pretrained(path)
    return path


def test_a_model_of_windows_gives_the_tokens_of_transformers(
    gemma: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Contexts of up to six windows, in chunks, with hits and preemptions."""
    import torch
    from transformers import AutoModelForCausalLM

    from mini_vllm import LLM

    rng = random.Random(1)
    shared = [rng.randrange(10, 96) for _ in range(64)]
    prompts = [
        shared[:n] + [rng.randrange(10, 96) for _ in range(5)] for n in (64, 64, 0, 32, 64, 48)
    ]
    params = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    with caplog.at_level("INFO", "mini_vllm"):
        llm = LLM(
            str(gemma), dtype="float32", block_size=4, num_kv_blocks=100, max_num_batched_tokens=16,
            max_model_len=96,
        )  # fmt: skip
    assert "groups of layers: 5 x a window of 16 tokens, 1 x full attention" in caplog.text
    found = [llm.generate(prompts, params) for _ in range(2)]
    model = AutoModelForCausalLM.from_pretrained(gemma, dtype=torch.float32)
    model.generation_config.eos_token_id = None
    for prompt, *outputs in zip(prompts, *found, strict=True):
        expected = model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)
        for output in outputs:
            assert output.outputs[0].token_ids == expected[0, len(prompt) :].tolist()
    scheduler = llm.engine.scheduler
    assert scheduler.prefix_cache_stats.hits > 0
    assert scheduler.preempted_prefix_cache_stats.requests > 0
    assert scheduler.kv_cache_manager.num_free_blocks == 99
