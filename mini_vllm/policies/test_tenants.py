"""Tenants: what one may take from another, counted in steps and blocks. The laws are in
test_policies.py.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from mini_vllm import LLM, SamplingParams
from mini_vllm.errors import InvalidParameterError
from mini_vllm.observe.trace import ScenarioRun
from mini_vllm.policies.registry import make_scheduler
from mini_vllm.policies.tenants import TenantKVCacheManager, TenantScheduler, salt_of, tenant_of
from mini_vllm.policies.test_policies import spec

ENGINE = {"block_size": 4, "num_blocks": 200, "max_num_seqs": 16, "max_num_batched_tokens": 64}
FLOODS = {  # prompt and output tokens of a request, and how many come at once
    "many short requests": (8, 8, 2000),
    "long answers": (8, 400, 200),
    "long prompts": (600, 4, 60),
    "fills the cache": (40, 10, 500),
}


def requests_of(
    tenant: str, *lengths: int, steps: Sequence[int], salt: str | None = None
) -> list[dict[str, Any]]:
    """A request of a tenant in each of these steps, no two with a block in common."""
    fields = {"cache_salt": salt_of(tenant, salt)}
    return [spec(f"{tenant}{i}", *lengths, step=step, **fields) for i, step in enumerate(steps)]


def run_of(requests: Sequence[dict[str, Any]], **options: Any) -> ScenarioRun:
    return ScenarioRun(
        {
            "name": "",
            "config": ENGINE | {"scheduler": "tenants"} | options,
            "requests": list(requests),
        }
    )


def goodput(requests: Sequence[dict[str, Any]], scheduler: str) -> int:
    """Requests of quiet with a first token within 4 steps, and all eight within 16, while it has
    any.
    """
    run, times = run_of(requests, scheduler=scheduler), dict[str, list[int]]()
    while run.step < 700 and not run.is_done():
        run.run_step()
        for request_id in run.recorder.steps[-1]["sampled"]:
            times.setdefault(request_id, []).append(run.recorder.steps[-1]["step"])
    arrivals = {
        each["id"]: each["arrival_step"] for each in requests if each["id"].startswith("quiet")
    }
    return sum(
        len(times.get(name, ())) == 8 and times[name][0] < step + 4 and times[name][-1] < step + 16
        for name, step in arrivals.items()
    )


@pytest.mark.parametrize("name", FLOODS)
@pytest.mark.slow
def test_a_flood_leaves_another_tenant_four_fifths_of_its_goodput(name: str) -> None:
    """In steps. V1 leaves it less than half, which shows that this is a flood."""
    input_length, output_length, number = FLOODS[name]
    quiet = requests_of("quiet", 20, 8, steps=range(0, 600, 6))
    flood = requests_of("flood", input_length, output_length, steps=[60] * number)
    alone = goodput(quiet, "v1")
    assert alone == len(quiet)
    assert goodput([*quiet, *flood], "tenants") >= 0.8 * alone
    assert goodput([*quiet, *flood], "v1") < 0.5 * alone


@pytest.mark.slow
def test_two_that_flood_are_served_alike_however_large_their_requests_are() -> None:
    """One is never ahead by more than a few of its requests, however long they flood."""
    small = requests_of("small", 8, 8, steps=[0] * 3000)
    large = requests_of("large", 120, 40, steps=[0] * 300)
    run, served = run_of([*large, *small]), Counter[str]()
    for _ in range(500):
        run.run_step()
        for tenant, (_, num_held, _) in run.scheduler.usage_by_tenant().items():  # type: ignore[attr-defined]
            served[tenant] += num_held
        # two large requests: blocks times steps
        assert abs(served["small"] - served["large"]) < 2 * (160 // 4) * 44
    assert min(served.values()) > 20_000


def test_a_prompt_has_its_share_of_the_budget_beside_other_tenants_and_all_of_it_alone() -> None:
    long, decoding = requests_of("long", 500, 1, steps=[0]), requests_of("a", 30, 4, steps=[2])
    prompts = [*requests_of("b", 100, 1, steps=[8]), *requests_of("c", 100, 1, steps=[8])]
    run, steps = run_of([*long, *decoding, *prompts]), list[dict[str, int]]()
    while not run.is_done():
        run.run_step()
        steps.append(dict(run.recorder.steps[-1]["sched"]))
    assert steps[:2] == steps[6:8] == [{"long0": 64}] * 2
    assert steps[2:6] == [{"long0": 32, "a0": 30}] + [{"long0": 32, "a0": 1}] * 3
    assert steps[8:13] == [{"long0": 21, "b0": 21, "c0": 21}] * 4 + [
        {"long0": 21, "b0": 16, "c0": 16}
    ]
    assert steps[13:] == [{"long0": 11}]


def test_a_tenant_whose_share_is_used_up_holds_up_no_other_one() -> None:
    many, other = requests_of("many", 4, 30, steps=[0] * 40), requests_of("other", 8, 20, steps=[0])
    output = run_of([*many, *other], max_num_batched_tokens=16).run_step()
    assert output.num_scheduled_tokens == {"many0": 4, "many1": 4, "other0": 8}


def test_a_decode_goes_on_when_the_share_of_its_tenant_is_used_up() -> None:
    many, other = requests_of("many", 4, 30, steps=[0] * 12), requests_of("other", 8, 20, steps=[5])
    run = run_of([*many, *other], max_num_batched_tokens=16)
    for _ in range(6):
        output = run.run_step()
    assert output.num_scheduled_tokens == {f"many{i}": 1 for i in range(12)} | {"other0": 4}


def test_a_tenant_that_was_away_has_saved_nothing() -> None:
    """Else it would have the engine alone until it had caught up."""
    first = requests_of("first", 20, 50, steps=[0] * 400)
    late = requests_of("late", 20, 50, steps=[500] * 400)
    run = run_of([*first, *late], max_num_seqs=4)
    while run.step < 520:
        run.run_step()
    shares = Counter(tenant_of(request.cache_salt) for request in run.scheduler.running)
    assert shares == {"first": 2, "late": 2}


def test_the_largest_tenant_gives_way_when_blocks_run_out() -> None:
    flood = requests_of("flood", 8, 300, steps=[0] * 8)
    quiet = requests_of("quiet", 8, 100, steps=[1] * 2)
    run, preempted = run_of([*flood, *quiet], num_blocks=120), Counter[str]()
    while not run.is_done():
        preempted.update(run.run_step().preempted_req_ids)
    assert sum(n for name, n in preempted.items() if name.startswith("flood")) > 3
    assert preempted["quiet0"] + preempted["quiet1"] == 0


# --- the cache ------------------------------------------------------------------------------------


def cached_by(run: ScenarioRun) -> dict[str, int]:
    """Cached blocks of each tenant, counted in the pool."""
    kv = run.scheduler.kv_cache_manager
    assert isinstance(kv, TenantKVCacheManager)
    pool = kv.tenant_pool
    counted = Counter(
        pool._owners[block.block_id] for block in pool.blocks if block.block_hash is not None
    )
    assert counted == +pool.num_cached
    return counted


def test_a_quota_is_kept_and_what_others_have_cached_stays() -> None:
    quiet = requests_of("quiet", 80, 1, steps=[0])  # 20 blocks, which then are the coldest of all
    flood = requests_of("flood", 40, 2, steps=range(1, 300, 2))
    again = requests_of("quiet", 80, 1, steps=[600])
    for quotas, stays in (({"flood": 60}, True), (None, False)):
        run = run_of(
            [*quiet, *flood, *again], cache_quotas=quotas, cache_watermark=1.0, num_blocks=100
        )
        while not run.is_done():
            run.run_step()
            if quotas and run.step > 2:
                # and what one step brings and one running request has
                assert cached_by(run)["flood"] <= 60 + 10 + 10
        assert bool(run.requests["quiet0"].num_cached_tokens) == stays


def test_the_sweeper_trims_the_largest_and_the_coldest_down_to_the_watermark() -> None:
    requests = [
        *requests_of("small", 40, 1, steps=[0]),
        *(
            each | {"id": f"large{i}"}
            for i in range(8)
            for each in requests_of(f"large{i}", 40, 1, steps=[2 + 2 * i])
        ),
    ]
    for each in requests[1:]:
        each["cache_salt"] = salt_of("large", None)
    last = requests_of("later", 4, 1, steps=[40])
    run = run_of([*requests, *last], num_blocks=101, cache_watermark=0.5)
    while not run.is_done():
        run.run_step()
    assert cached_by(run) == {"small": 10, "large": 40, "later": 1}
    kv = run.scheduler.kv_cache_manager
    found = {
        each["id"]: len(kv.get_computed_blocks(run._make_request(each))[0]) for each in requests
    }
    assert found == {"small0": 9, **{f"large{i}": 0 if i < 4 else 9 for i in range(8)}}
    assert kv.num_free_blocks == kv.num_usable_blocks


# --- names and options ----------------------------------------------------------------------------


def test_no_two_salts_of_tenants_are_equal_and_each_names_its_tenant() -> None:
    pairs = [(tenant, salt) for tenant in ("", "a", "ab") for salt in (None, "b", "/", "a/", "b/b")]
    assert len({salt_of(*pair) for pair in pairs}) == len(pairs)
    assert all(tenant_of(salt_of(*pair)) == pair[0] for pair in pairs)
    assert (tenant_of(None), tenant_of("own")) == ("", "own")


def test_prompt_logprobs_are_computed_anew_and_the_tenant_pays_for_them() -> None:
    llm = LLM("tiny", device="cpu", num_kv_blocks=50, scheduler="tenants", hash_function="sha256")
    scheduler = llm.engine.scheduler
    assert isinstance(scheduler, TenantScheduler)
    for number in range(2):
        params = SamplingParams(max_tokens=1, prompt_logprobs=0)
        llm.engine.add_request(
            str(number), list(range(100, 140)), params, cache_salt=salt_of("alice", None)
        )
        assert scheduler.usage_by_tenant()["alice"][0] == 1
        (output,) = llm.engine.step()
        assert output.num_cached_tokens == 0
    assert set(scheduler.usage_by_tenant()) == {"alice"}


@pytest.mark.parametrize(
    "options",
    [
        *({"cache_quotas": {"a": quota}} for quota in (-1, 0.5, "1", None, True)),
        *({"cache_watermark": share} for share in (-0.1, 1.1)),
        {"policy": "priority"},
    ],
    ids=str,
)
def test_what_is_no_quota_no_share_or_no_order_of_tenants_is_refused(
    options: dict[str, Any],
) -> None:
    with pytest.raises(InvalidParameterError, match=r"cache_quotas|cache_watermark|policy"):
        make_scheduler(ENGINE | {"scheduler": "tenants"} | options)
