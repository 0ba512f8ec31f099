"""Simulated roles: the seconds of a transfer, what each role computes, and who wins."""

from typing import Any

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.workload import TraceRequest, lognormal_lengths, synthetic
from mini_vllm.simulator.fleet import policy_config, simulate
from mini_vllm.simulator.metrics import SLO, Metrics, RequestRecord
from mini_vllm.simulator.roles.fleet import simulate_roles
from mini_vllm.simulator.roles.options import Roles
from mini_vllm.simulator.roles.verdict import ratios, verdict
from mini_vllm.simulator.step_time import StepTimeModel

# A step takes 10 ms, a token 1 ms more.
STEPS = StepTimeModel((10e-3, 0, 1e-3, 0, 0, 0))
ENGINE = {"block_size": 16, "num_blocks": 400, "max_num_seqs": 8, "max_num_batched_tokens": 256}
LINK = {"bytes_per_token": 1000, "link_bandwidth": 1e6, "link_latency": 5e-3}  # 1 ms a token


def run(
    trace: list[TraceRequest],
    roles: Roles,
    config: dict[str, Any] = ENGINE,
    routing: str = "round_robin",
) -> tuple[dict[str, Any], list[RequestRecord]]:
    records: list[RequestRecord] = []
    metrics = Metrics(SLO(), records.append)
    report = simulate_roles(trace, config, STEPS, roles, metrics=metrics, routing=routing).report
    return report, sorted(records, key=lambda record: record.index)


def test_a_first_token_takes_the_prompt_the_transfer_and_a_step() -> None:
    report, (record,) = run([TraceRequest(3.0, 100, 5)], Roles(1, 1, **LINK))
    prefill, transfer, step = 10e-3 + 100e-3, 5e-3 + 100e-3, 11e-3
    assert record.ttft == pytest.approx(prefill + transfer + step)
    assert record.e2e == pytest.approx(record.ttft + 4 * step)
    assert report["roles"]["sent_tokens"] == 100
    assert report["roles"]["transfer"]["mean"] == pytest.approx(transfer)


def test_a_link_carries_one_transfer_at_a_time_at_both_ends() -> None:
    both = [TraceRequest(0.0, 100, 2), TraceRequest(0.0, 100, 2)]
    _, (first, second) = run(both, Roles(2, 1, **LINK))
    assert second.ttft - first.ttft == pytest.approx(105e-3, abs=11e-3)
    _, (first, second) = run(both, Roles(2, 2, **LINK))
    assert second.ttft == pytest.approx(first.ttft)


def test_what_the_decode_worker_has_is_not_sent() -> None:
    trace = [TraceRequest(0.0, 513, 2, (1, 2)), TraceRequest(9.0, 600, 2, (1, 3))]
    report, _ = run(trace, Roles(1, 1, **LINK))
    assert report["roles"]["sent_tokens"] == 513 + 600 - 512
    assert report["prefix_hits"] == 512


def test_every_request_is_answered_in_full_and_prompts_are_computed_once() -> None:
    trace = list(synthetic(20, 50, lognormal_lengths(200, 30, 1.0), seed=3))
    report, records = run(trace, Roles(2, 2, **LINK))
    assert [record.index for record in records] == [*range(50)]
    assert [record.output_length for record in records] == [spec.output_length for spec in trace]
    assert report["output_tokens"] == sum(spec.output_length for spec in trace)
    # the decode workers compute the last token of each prompt, and each token but the last
    assert report["scheduled_tokens"] == report["output_tokens"]
    assert report["preemptions"] == 0
    assert sum(report["requests_per_replica"]) == 50


def test_a_victim_of_a_decode_worker_computes_its_prompt_again() -> None:
    trace = [TraceRequest(0.0, 100, 200) for _ in range(4)]
    config = {**ENGINE, "num_blocks": 50, "enable_prefix_caching": False}
    report, records = run(trace, Roles(1, 1, **LINK), config)
    assert report["preemptions"] > 0
    assert [record.output_length for record in records] == [200] * 4
    # 49 blocks are 784 slots: the first victim has some 96 tokens behind its prompt of 100
    num_again = report["scheduled_tokens"] - report["output_tokens"]
    assert num_again >= 150 * report["preemptions"]


def test_gaps_do_not_depend_on_prompts_when_roles_are_apart() -> None:
    """A long prompt lengthens a gap of a running request, unless another engine computes it."""
    trace = [TraceRequest(0.0, 10, 100), TraceRequest(0.5, 200, 2)]
    apart, _ = run(trace, Roles(1, 1, **LINK))
    together = simulate(trace, ENGINE, STEPS).report
    assert together["max_itl"] > 0.2
    assert apart["max_itl"] < 0.02


def test_a_prompt_that_can_never_be_computed_is_counted() -> None:
    report, records = run([TraceRequest(0.0, 20_000, 2), TraceRequest(0.0, 9, 2)], Roles(1, 1))
    assert (report["refused"], [record.index for record in records]) == (1, [1])


def test_arrivals_at_any_time_give_the_same_as_all_known_before() -> None:
    """The loop runs up to each arrival. A later arrival of no weight must change nothing."""
    trace = list(synthetic(30, 40, lognormal_lengths(150, 20, 1.0), seed=5))
    plain, _ = run(trace, Roles(2, 2, **LINK), routing="least_loaded")
    ticks = [TraceRequest(i * 0.02, 50_000, 1) for i in range(100)]  # each is refused
    merged = sorted([*trace, *ticks], key=lambda spec: spec.arrival_time)
    cut, _ = run(merged, Roles(2, 2, **LINK), routing="least_loaded")
    assert cut["refused"] == 100
    assert (plain["ttft"], plain["itl"]) == (cut["ttft"], cut["itl"])


def latencies(ttft: float, itl: float) -> dict[str, Any]:
    return {"ttft": {"p50": ttft, "p99": ttft * 2}, "itl": {"p50": itl, "p99": itl * 2}}


def test_the_verdict_is_one_for_each_latency() -> None:
    found = [*verdict(latencies(1.0, 0.1), latencies(1.5, 0.05))]
    assert found == [
        "TTFT: to take the roles apart loses (TTFT p50 1.50 times, TTFT p99 1.50 times)",
        "ITL: to take the roles apart wins (ITL p50 0.50 times, ITL p99 0.50 times)",
    ]
    same = [*verdict(latencies(1.0, 0.1), latencies(1.001, 0.1))]
    assert all("changes nothing" in line for line in same)
    mixed = latencies(1.0, 0.1) | {"itl": {"p50": 0.2, "p99": 0.01}}
    assert "is mixed" in [*verdict(latencies(1.0, 0.1), mixed)][1]
    nothing = {"ttft": {"p50": None, "p99": None}, "itl": {"p50": None, "p99": None}}
    assert ratios(nothing, nothing) == {}


def test_bad_roles_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="num_prefill must be an integer from 1 on"):
        Roles(0, 1)
    with pytest.raises(InvalidParameterError, match="roles need KVCacheManager, got Offloading"):
        simulate_roles([], policy_config("v1+swap", ENGINE), STEPS, Roles(1, 1))
    with pytest.raises(InvalidParameterError, match="routing must be one of"):
        simulate_roles([], ENGINE, STEPS, Roles(1, 1), routing="random")
