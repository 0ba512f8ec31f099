"""Groups of layers: one pool, a block table for each group, and the tokens of transformers."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from math import lcm
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from labkit.compare.replay import differences, find_trace_files, read_traces
from mini_vllm.errors import InvalidParameterError
from mini_vllm.offload.hybrid.groups import ChunkedLocal, FullAttention, SlidingWindow
from mini_vllm.offload.hybrid.layout import KVCacheLayout, strided_groups, tensors_of_layers
from mini_vllm.offload.hybrid.manager import HybridKVCacheManager
from mini_vllm.offload.hybrid.swap.manager import SwappingHybridKVCacheManager
from mini_vllm.offload.hybrid.tiers.manager import TieredHybridKVCacheManager
from mini_vllm.offload.manager import OffloadingKVCacheManager
from mini_vllm.offload.tiers.connector import TierConnector
from mini_vllm.offload.tiers.host import HostTier
from mini_vllm.offload.tiers.work import TierPlan, TierResult
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request, RequestStatus
from mini_vllm.scheduler import Scheduler
from mini_vllm.step import KVPlan, KVResult, LayerKVSpec

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
    assert f"({1 - 57 / (6 * 32):.0%} less) while it decodes" in layout.describe(n)
    assert layout.describe(n).endswith("in steps of 4 tokens")
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
        self.host: dict[int, list[Any]] = {}

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

    def swap(self, plan: KVPlan) -> None:
        """Copies out, then in, of whole blocks."""
        size, slots = self.kv.block_size, self.slots
        work = plan.connector if isinstance(plan.connector, TierPlan) else TierPlan("")
        for block, cpu_block in (*plan.swap_out, *work.store):
            self.host[cpu_block] = [slots.get((block, i)) for i in range(size)]
        for cpu_block, block in (*plan.swap_in, *work.load):
            slots.update(((block, i), content) for i, content in enumerate(self.host[cpu_block]))

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


def test_a_hit_that_ends_before_the_chunk_is_looked_up() -> None:
    """Token 8 sees tokens 0 to 7, if the chunk that begins at 10 has no hit."""
    kind = ChunkedLocal(4, 10)
    assert kind.find_longest_hit(lambda i: i >= 2, 12, 4) == (2, 12)
    assert kind.find_longest_hit(lambda i: i < 2, 12, 4) == (0, 8)
    assert kind.find_longest_hit(lambda i: False, 12, 4) == (0, 0)


GROUPS = {
    "two": (FullAttention(4), SlidingWindow(4, 8)),
    "three": (SlidingWindow(4, 8), FullAttention(4), SlidingWindow(4, 15)),
    "strided": (SlidingWindow(2, 7),) * 2 + (FullAttention(2),),
    "chunked": (ChunkedLocal(4, 10), FullAttention(4)),
    "one window": (SlidingWindow(4, 6),),
    "sizes": (FullAttention(4), SlidingWindow(2, 5), SlidingWindow(8, 9)),
}


def run_at_random(
    groups: tuple[FullAttention, ...],
    seed: int,
    manager_cls: type[HybridKVCacheManager] = HybridKVCacheManager,
) -> Counter[str]:
    rng = random.Random(seed)
    budget, size = rng.choice((5, 16, 64)), max(kind.block_size for kind in groups)
    num_blocks = rng.randint(26, 40) * len(groups)
    options: dict[str, Any] = {}
    if issubclass(manager_cls, SwappingHybridKVCacheManager):
        num_blocks = sum(kind.most_blocks(44, budget) for kind in groups) + rng.randint(2, 8)
        options = {"num_cpu_blocks": rng.choice((10, 80)), "enable_prefix_caching": seed % 3 > 0}
    if issubclass(manager_cls, TieredHybridKVCacheManager):
        num_blocks = sum(kind.most_blocks(44, budget) for kind in groups) + rng.randint(2, 8)
        host = HostTier(rng.choice((10, 80)))
        options = {"connector": TierConnector(lcm(*(kind.block_size for kind in groups)), host)}
    kv = manager_cls(
        num_blocks, size, groups=groups, max_num_batched_tokens=budget,
        prefix_cache_retention_interval=rng.choice((0, None, 2 * size)), **options,
    )  # fmt: skip
    scheduler = Scheduler(
        kv, max_num_seqs=4, max_num_batched_tokens=budget, max_model_len=44,
        reserve_full_sequence=rng.random() < 0.5, policy=rng.choice(("fcfs", "priority")),
        watermark=rng.choice((0.0, 0.1)),
    )  # fmt: skip
    contents, seen = Contents(kv), Counter[str]()
    shared = [rng.randrange(VOCABULARY) for _ in range(20)]
    requests = []
    for i in range(8):
        own = [rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 8))]
        params = SamplingParams(max_tokens=rng.randint(1, 16), ignore_eos=True)
        order: dict[str, Any] = {"priority": rng.randrange(3), "arrival_time": float(i)}
        requests.append(Request(str(i), shared[: rng.choice((0, 12, 20))] + own, params, **order))
        requests[-1].priority = rng.randrange(3)
        scheduler.add_request(requests[-1])
    for _ in range(1000):
        if not scheduler.has_unfinished_requests():
            break
        if rng.random() < 0.03:
            scheduler.abort_request(rng.choice(requests).request_id)
        output = scheduler.schedule()
        contents.check_conservation(requests)
        scheduled = output.scheduled_requests
        seen["preemptions"] += len(output.preempted_req_ids)
        plan = kv.begin_step()
        if rng.random() < 0.05:
            scheduler.fail_step(output)  # nothing of it was written
            kv.end_step(None)
            seen["failures"] += 1
            continue
        seen["swapped in"] += len(plan.swap_in)
        contents.swap(plan)
        seen["nulls"] += contents.compute(scheduled, output.num_scheduled_tokens)
        sampled = {
            r.request_id: [rng.randrange(VOCABULARY)]
            for r in scheduled
            if r.num_computed_tokens + output.num_scheduled_tokens[r.request_id] == r.num_tokens
        }
        if isinstance(plan.connector, TierPlan):
            seen["loaded"] += len(plan.connector.load)
        kv.end_step(KVResult(connector=TierResult()))
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


@pytest.mark.parametrize(
    "name",
    [
        "two",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("three", "chunked", "sizes")),
    ],
)
def test_what_is_swapped_in_is_what_was_swapped_out(name: str) -> None:
    runs = [run_at_random(GROUPS[name], s, SwappingHybridKVCacheManager) for s in range(9)]
    seen = sum(runs, Counter[str]())
    assert min(seen[each] for each in ("preemptions", "swapped in", "failures")) > 0, seen


@pytest.mark.parametrize(
    "name",
    ["two", *(pytest.param(name, marks=pytest.mark.slow) for name in GROUPS if name != "two")],
)
def test_what_is_loaded_from_a_tier_is_what_went_down(name: str) -> None:
    runs = [run_at_random(GROUPS[name], s, TieredHybridKVCacheManager) for s in range(9)]
    seen = sum(runs, Counter[str]())
    assert min(seen[each] for each in ("preemptions", "loaded", "failures")) > 0, seen


TRACES = find_trace_files(Path(__file__).parents[3] / "traces" / "vllm-0.33.0-hybrid")


def test_the_corpus_is_there() -> None:
    assert sum(len(read_traces(file)) for file in TRACES) == 49


@pytest.mark.parametrize("file", TRACES, ids=lambda file: file.stem)
def test_every_decision_is_vllms(file: Path) -> None:
    """What vLLM 0.33.0 decided for groups of layers (traces/README.md)."""
    assert differences(file) == []


# --- through the whole engine ---------------------------------------------------------------------


SMALL: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 6,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "initializer_range": 0.3, "eos_token_id": 7, "sliding_window": WINDOW,
}  # fmt: skip
FIVE_TO_ONE = {"layer_types": ["sliding_attention"] * 5 + ["full_attention"]}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "gemma3": ("Gemma3Text", {"head_dim": 8, "query_pre_attn_scalar": 12}),
    "ministral": ("Ministral", {"head_dim": 8} | FIVE_TO_ONE),
    "mistral": ("Mistral", {"head_dim": 8}),
    "gpt_oss": (
        "GptOss",
        {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2} | FIVE_TO_ONE,
    ),
    "llama4": (
        "Llama4Text",
        {"head_dim": 8, "num_local_experts": 4, "interleave_moe_layer_step": 2, "floor_scale": 12}
        | {
            "no_rope_layers": [1, 1, 0, 1, 1, 0],
            "attention_chunk_size": WINDOW,
            "sliding_window": None,
        }
        | {"intermediate_size_mlp": 40, "attn_scale": 0.5},
    ),
    "qwen2": ("Qwen2", {"use_sliding_window": True, "max_window_layers": 2}),
}
RNG = random.Random(1)
SHARED = [RNG.randrange(10, 96) for _ in range(64)]
PROMPTS = [SHARED[:n] + [RNG.randrange(10, 96) for _ in range(5)] for n in (64, 64, 0, 32, 64, 48)]
GREEDY = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
FOUR_SEATS = {
    "dtype": "float32", "block_size": 4, "num_kv_blocks": 100, "max_num_batched_tokens": 16,
    "max_model_len": 96,
}  # fmt: skip


FEWER_BLOCKS = {"llama4": {"num_kv_blocks": 60}}  # a chunk is cheaper than a window


class Trained(NamedTuple):
    """A checkpoint, and what transformers says to PROMPTS."""

    path: str
    tokens: list[list[int]]
    logprobs: list[list[float]]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Trained]:
    """A model of random weights by name, its answers up to six windows behind the beginning."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")

    @cache
    def make(name: str) -> Trained:
        torch.manual_seed(5)
        path = tmp_path_factory.mktemp(name)
        kind, options = MODELS[name]
        config = getattr(transformers, f"{kind}Config")(**SMALL | options)
        model = transformers.AutoModelForCausalLM.from_config(config)
        for parameter_name, parameter in model.named_parameters():
            if "norm" in parameter_name and name == "gemma3":  # else its weights are 0
                parameter.data.normal_(0, 0.3)
        model.save_pretrained(path)
        model.generation_config.eos_token_id = None
        generate = partial(model.eval().generate, max_new_tokens=24, do_sample=False)
        texts = [generate(torch.tensor([prompt])) for prompt in PROMPTS]
        logprobs = []
        for prompt, text in zip(PROMPTS, texts, strict=True):
            with torch.inference_mode():
                rows = model(text).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
            logprobs.append(rows.gather(1, text[0, len(prompt) :, None])[:, 0].tolist())
        answers = [text[0, len(p) :].tolist() for p, text in zip(PROMPTS, texts, strict=True)]
        return Trained(str(path), answers, logprobs)

    return make


def answers_of(llm: Any) -> list[list[int]]:
    return [output.outputs[0].token_ids for output in llm.generate(PROMPTS, GREEDY)]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if i else ()) for i, name in enumerate(MODELS)],
)
def test_windows_give_the_tokens_of_transformers(
    name: str, trained: Callable[[str], Trained], caplog: pytest.LogCaptureFixture
) -> None:
    """And its log-probabilities, with chunks, hits and preemptions. The start says what the groups
    save.
    """
    from mini_vllm import LLM

    model = trained(name)
    with caplog.at_level("INFO", "mini_vllm"):
        llm = LLM(model.path, **FOUR_SEATS | FEWER_BLOCKS.get(name, {}))
    assert "groups of layers: " in caplog.text
    params = replace(GREEDY, logprobs=0)
    for _ in range(2):
        choices = [output.outputs[0] for output in llm.generate(PROMPTS, params)]
        assert [choice.token_ids for choice in choices] == model.tokens
        for choice, expected in zip(choices, model.logprobs, strict=True):
            found = [
                row[t].logprob for t, row in zip(choice.token_ids, choice.logprobs, strict=True)
            ]
            assert found == pytest.approx(expected, abs=1e-4)
    scheduler = llm.engine.scheduler
    assert isinstance(scheduler.kv_cache_manager, HybridKVCacheManager)
    assert scheduler.prefix_cache_stats.hits > 0
    assert scheduler.preempted_prefix_cache_stats.requests > 0 or name == "mistral"
    kv = scheduler.kv_cache_manager
    assert kv.num_free_blocks == kv.num_usable_blocks


@pytest.mark.parametrize(
    "options",
    [
        {"speculative": "ngram", "async_scheduling": True},
        # this keeps all blocks of all layers
        {"scheduler": "tenants", "num_kv_blocks": 60},
        *(
            pytest.param(options, marks=pytest.mark.slow)
            for options in (
                # and so does this
                {"speculative": "draft_model", "draft_model": "", "num_kv_blocks": 60},
                {"cudagraph_mode": "full_and_piecewise"},
                {"async_scheduling": True},
                {"speculative": "ngram"},
                {"scheduler": "prefill_first", "max_num_batched_tokens": 96, "num_kv_blocks": 170},
                {"scheduler": "warm_first"},
                {"enable_prefix_caching": False},
            )
        ),
    ],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_groups_beside_other_features(
    options: dict[str, Any], trained: Callable[[str], Trained]
) -> None:
    from mini_vllm import LLM

    model = trained("gemma3")
    if "draft_model" in options:
        options = options | {"draft_model": model.path}
    llm = LLM(model.path, **FOUR_SEATS | options)
    for _ in range(2):
        assert answers_of(llm) == model.tokens
    kv = llm.engine.scheduler.kv_cache_manager
    assert isinstance(kv, HybridKVCacheManager) == (kv.num_blocks != 60)
    assert kv.num_free_blocks == kv.num_usable_blocks


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("c", {}),
        ("c", {"cudagraph_mode": "full_and_piecewise"}),
        ("torch", {}),
        ("torch", {"cudagraph_mode": "full_decode_only"}),
        ("reference", {}),
    ],
)
@pytest.mark.slow
def test_what_lies_in_the_null_block_reaches_no_token(
    backend: str, options: dict[str, Any], name: str, trained: Callable[[str], Trained]
) -> None:
    import torch

    from mini_vllm import LLM
    from mini_vllm.attention import why_not

    if reason := why_not(backend, torch.device("cpu")):
        pytest.skip(reason)
    if (backend, name) == ("reference", "gpt_oss"):
        pytest.skip("it has no sinks")
    model = trained(name)
    llm = LLM(model.path, **FOUR_SEATS | options, attention_backend=backend)
    for key, value in llm.engine.executor.runner.kv_caches:
        key[0] = value[0] = float("nan")
    assert answers_of(llm) == model.tokens
    if backend == "c" or not options:  # a recording of torch writes padding there
        assert key[0].isnan().all(), "nothing is written there either"


def test_a_null_block_of_nan_reaches_no_token(trained: Callable[[str], Trained]) -> None:
    """The quick one of those above."""
    from mini_vllm import LLM

    llm = LLM(trained("gemma3").path, **FOUR_SEATS)
    for key, value in llm.engine.executor.runner.kv_caches:
        key[0] = value[0] = float("nan")
    assert answers_of(llm) == trained("gemma3").tokens


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("triton", "gemma3"),
        ("triton", "gpt_oss"),
        pytest.param("triton-simple", "gemma3", marks=pytest.mark.nightly),
    ],
)
def test_what_lies_in_the_null_block_reaches_no_kernel_of_a_gpu(
    backend: str, name: str, trained: Callable[[str], Trained]
) -> None:
    """The second chunk begins behind the first window, and its tiles in front of its own."""
    pytest.importorskip("triton", reason="Triton has Linux wheels only")
    from mini_vllm import LLM
    from mini_vllm.attention.test_attention import GPU

    llm = LLM(
        trained(name).path,
        **FOUR_SEATS | {"max_num_batched_tokens": 24},
        attention_backend=backend,
        device=GPU.type,
    )
    for key, value in llm.engine.executor.runner.kv_caches:
        key[0] = value[0] = float("nan")
    params = SamplingParams(temperature=0, max_tokens=2, ignore_eos=True)
    (output,) = llm.generate([PROMPTS[3]], params)
    assert output.outputs[0].token_ids == trained(name).tokens[3][:2]


def test_windows_of_an_eighth_of_the_context_save_three_fifths(
    trained: Callable[[str], Trained],
) -> None:
    """The bytes that a request of 128 tokens holds at most, against those without groups."""
    from mini_vllm import LLM

    llm = LLM(trained("gemma3").path, **FOUR_SEATS | {"max_model_len": 8 * WINDOW})
    engine = llm.engine
    kv, cache = engine.scheduler.kv_cache_manager, engine.executor.runner.cache_engine
    tensors = [tensor for pair in cache.kv_caches for tensor in pair]
    bytes_per_block = sum(tensor[0].nbytes for tensor in tensors)
    assert sum(tensor.nbytes for tensor in tensors) == kv.num_blocks * bytes_per_block
    assert bytes_per_block == engine.kv_cache_plan.bytes_per_block
    engine.add_request("a", SHARED, SamplingParams(max_tokens=64, ignore_eos=True))
    held = []
    while engine.has_unfinished_requests():
        engine.step()
        held.append((kv.num_usable_blocks - kv.num_free_blocks) * bytes_per_block)
    without = 6 * 2 * 2 * 8 * 4 * (8 * WINDOW)  # layers, K and V, heads, head_dim, bytes, tokens
    assert max(held) <= 0.4 * without


def test_a_request_alone_never_outgrows_the_pool(trained: Callable[[str], Trained]) -> None:
    """Without a limit it may become as long as the pool allows, and no longer."""
    from mini_vllm import LLM

    options = FOUR_SEATS | {"num_kv_blocks": 71, "max_model_len": None}
    engine = LLM(trained("gemma3").path, **options).engine
    longest = engine.scheduler.max_model_len
    assert longest == (70 - 5 * 9) * 4, "five windows take at most 9 blocks each"
    engine.add_request("a", SHARED, SamplingParams(max_tokens=500, ignore_eos=True))
    num_tokens = 0
    while engine.has_unfinished_requests():
        for output in engine.step():
            num_tokens = len(output.outputs[0].token_ids)
    assert len(SHARED) + num_tokens == longest


def test_a_draft_model_with_groups_is_refused_by_name(trained: Callable[[str], Trained]) -> None:
    from mini_vllm import LLM

    path = trained("gemma3").path
    with pytest.raises(InvalidParameterError, match=r"draft_model needs one group of layers, got"):
        LLM(
            path,
            **FOUR_SEATS,
            speculative="draft_model",
            draft_model=path,
            kv_cache_manager_cls=HybridKVCacheManager,
        )


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("mode", ["swap", "cheaper"])
def test_swap_gives_the_tokens_of_transformers(
    mode: str, ahead: bool, trained: Callable[[str], Trained]
) -> None:
    from mini_vllm import LLM

    options: dict[str, Any] = {"preemption_mode": mode, "async_scheduling": ahead}
    for name in ("gemma3", "mistral"):  # several groups, and one kind of layers
        llm = LLM(trained(name).path, **FOUR_SEATS | options, num_cpu_blocks=200)
        assert answers_of(llm) == trained(name).tokens
        kv = llm.engine.scheduler.kv_cache_manager
        assert isinstance(kv, SwappingHybridKVCacheManager) == (name == "gemma3")
        assert kv.num_free_blocks == kv.num_usable_blocks
        assert kv.connector.pool.num_free_blocks == 200


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("name", ["gemma3", "llama4"])
def test_tiers_have_blocks_of_each_group(
    name: str, ahead: bool, trained: Callable[[str], Trained], tmp_path: Path
) -> None:
    """In main memory, and in files for the next engine."""
    from mini_vllm import LLM

    options: dict[str, Any] = {"async_scheduling": ahead, "kv_offload_path": str(tmp_path)}
    for _ in range(2):
        llm = LLM(trained(name).path, **FOUR_SEATS | options, kv_offload_bytes=1 << 18)
        for _ in range(2):
            assert answers_of(llm) == trained(name).tokens
        kv = llm.engine.scheduler.kv_cache_manager
        assert isinstance(kv, TieredHybridKVCacheManager)
        assert kv.num_free_blocks == kv.num_usable_blocks
        stats = kv.connector.stats
        assert min(stats.num_stored, stats.num_loaded, stats.num_written + stats.num_read) > 0
        llm.engine.shutdown()
    assert stats.num_read > 0


@pytest.mark.slow
def test_a_window_is_found_again_where_the_option_says(trained: Callable[[str], Trained]) -> None:
    """The second prompt shares 48 tokens with the first one and leaves it in the middle."""
    from mini_vllm import LLM

    first, second = SHARED, [*SHARED[:48], *SHARED[:9]]
    one = SamplingParams(max_tokens=1)
    found = {}
    for interval in (0, 24, None):
        llm = LLM(trained("gemma3").path, **FOUR_SEATS, prefix_cache_retention_interval=interval)
        llm.generate([first], one)
        found[interval] = llm.generate([second], one)[0].num_cached_tokens
    assert found == {0: 0, 24: 48, None: 48}
    with pytest.raises(InvalidParameterError, match=r"a multiple of block_size 4, got 6"):
        LLM(trained("gemma3").path, **FOUR_SEATS, prefix_cache_retention_interval=6)


def test_a_second_tier_with_groups_is_refused_by_name(trained: Callable[[str], Trained]) -> None:
    from mini_vllm import LLM

    class Tier(OffloadingKVCacheManager):
        pass

    with pytest.raises(InvalidParameterError, match=r"Tier keeps blocks of one group, .* window"):
        LLM(trained("gemma3").path, **FOUR_SEATS, kv_cache_manager_cls=Tier)
