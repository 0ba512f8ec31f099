"""Simulated tiers: the seconds of a load, what is found, and what the requests beside it feel."""

from random import Random
from typing import Any

import pytest

from mini_vllm.errors import InvalidParameterError
from mini_vllm.load.workload import TraceRequest
from mini_vllm.simulator.fleet import policy_config, simulate
from mini_vllm.simulator.metrics import SLO, Metrics, RequestRecord
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.simulator.tiers.options import Tiers
from mini_vllm.simulator.tiers.replica import simulate_tiers

# A step takes 1 ms, a token 1 ms more, to copy a block 2 ms.
STEPS = StepTimeModel((1e-3, 0, 1e-3, 0, 0, 2e-3))
SIZE = 64
ENGINE = {"block_size": SIZE, "num_blocks": 33, "max_num_seqs": 8, "max_num_batched_tokens": 8192}
LARGER = {**ENGINE, "num_blocks": 65}
HASHED = 512  # tokens of a hash id: 8 blocks


def prompt(time: float, first_id: int, num_ids: int, num_output: int = 2) -> TraceRequest:
    """Its last token is one of its own."""
    ids = tuple(range(first_id, first_id + num_ids))
    return TraceRequest(time, HASHED * num_ids + 1, num_output, (*ids, first_id + 90_000))


def run(
    trace: list[TraceRequest], tiers: Tiers | None, config: dict[str, Any] = ENGINE
) -> tuple[dict[str, Any], list[RequestRecord]]:
    records: list[RequestRecord] = []
    metrics = Metrics(SLO(), records.append)
    if tiers is None:
        report = simulate(trace, config, STEPS, metrics=metrics).report
    else:
        report = simulate_tiers(trace, config, STEPS, tiers, metrics=metrics).report
    return report, sorted(records, key=lambda record: record.index)


# 16 blocks are asked for, 72 of other prompts push them out of the device, and out of a main memory
# of 40. Then they are asked for again. Writes in flight are at most half of main memory.
RETURNING = [
    prompt(0, 0, 2),
    *(prompt(100.0 * i, 1000 * i, 3) for i in (1, 2, 3)),
    prompt(400, 0, 2),
]
COMPUTED = 1e-3 * (1 + 1025)  # seconds of a step with the whole prompt


def test_without_a_tier_the_prompt_is_computed_again() -> None:
    _, records = run(RETURNING, None)
    assert [record.num_cached_tokens for record in records] == [0] * 5
    assert records[-1].ttft == pytest.approx(COMPUTED)


def test_a_load_from_main_memory_takes_as_long_as_its_copies() -> None:
    report, records = run(RETURNING, Tiers(1000))
    assert records[-1].num_cached_tokens == 1024
    assert records[-1].ttft == pytest.approx(1e-3 * 2 + 16 * 2e-3)
    assert report["tiers"]["loaded"] == 16
    assert report["tiers"]["stored"] == 16 + 3 * 24
    assert report["tiers"]["written"] == 0


def test_a_load_from_the_disk_takes_its_jobs_and_the_copies() -> None:
    tiers = Tiers(40, 1000, block_bytes=1000, disk_bandwidth=1e6, disk_latency=0.5e-3)
    report, records = run(RETURNING, tiers)
    assert tiers.seconds_per_job == 1.5e-3
    assert report["tiers"]["read"] == 16
    # One step asks for the files, and lasts until the last one is read. What has left main memory
    # goes down again when it leaves the device, some of it in the step of the load.
    seconds = 16 * 1.5e-3 + 1e-3 * 2 + 16 * 2e-3
    num_again = (records[-1].ttft - seconds) / 2e-3
    assert num_again == pytest.approx(round(num_again), abs=1e-6)
    assert 0 <= round(num_again) <= report["tiers"]["stored"] - (16 + 3 * 24)


def test_a_disk_that_is_slower_than_computing_is_left_alone() -> None:
    slow = {"block_bytes": 1000, "disk_bandwidth": 1e4, "disk_latency": 0}  # 0.1 s a block
    _, cheaper = run(RETURNING, Tiers(40, 1000, **slow))
    report, always = run(RETURNING, Tiers(40, 1000, load="always", **slow))
    assert cheaper[-1].ttft == pytest.approx(COMPUTED, rel=0.05)
    assert always[-1].ttft > 16 * 0.1 > 1.5 * COMPUTED
    assert report["tiers"]["read"] == 16


def test_a_queue_in_front_of_the_disk_counts() -> None:
    """Alone each prompt is read sooner than computed. Of three at once the last one is computed."""
    rest = {"block_bytes": 1000, "disk_bandwidth": 1e6 / 25, "disk_latency": 0}  # 25 ms a block
    apart = [prompt(i * 100, 1000 * i, 2) for i in range(3)]
    push = [prompt(500 + i * 100, 50_000 + 1000 * i, 3) for i in range(5)]
    again = [prompt(2000, 1000 * i, 2) for i in range(3)]
    report, records = run([*apart, *push, *again], Tiers(70, 1000, **rest), LARGER)
    assert [record.num_cached_tokens for record in records[8:]] == [1024, 1024, 0]
    assert report["tiers"]["read"] == 32


def test_running_requests_do_not_wait_for_the_disk() -> None:
    tiers = Tiers(40, 1000, block_bytes=1000, disk_bandwidth=1e5, disk_latency=0, load="always")
    decoding = TraceRequest(399.0, 10, 600, ())
    report, records = run([*RETURNING[:-1], decoding, RETURNING[-1]], tiers)
    assert records[-1].num_cached_tokens == 1024
    assert records[-1].ttft > 16 * 0.01
    assert report["max_itl"] < 16 * 0.01, "a step with its copies, and no read"


def test_a_request_that_arrives_while_another_one_waits_for_the_disk_begins_at_once() -> None:
    tiers = Tiers(40, 1000, block_bytes=1000, disk_bandwidth=1e4, disk_latency=0, load="always")
    _, records = run([*RETURNING, TraceRequest(400.55, 10, 2)], tiers)
    assert records[-2].ttft > 1.6
    assert records[-1].ttft == pytest.approx(1e-3 * 11, abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_tier_for_all_finds_what_a_device_for_all_finds(seed: int) -> None:
    """Prompts one after the other: what any earlier one has computed is found."""
    rng, trace = Random(seed), []
    for index in range(60):
        start = 10 * min(rng.randrange(12), rng.randrange(12))
        trace.append(prompt(100.0 * index, start, rng.randint(1, 3), rng.randint(1, 20)))
    large = {**ENGINE, "num_blocks": 5000}
    expected, _ = run(trace, None, large)
    for tiers in (Tiers(4000), Tiers(100, 4000, block_bytes=1, disk_latency=0, load="always")):
        found, _ = run(trace, tiers)
        assert found["prefix_hits"] == expected["prefix_hits"] > 0
        assert found["output_tokens"] == expected["output_tokens"]


def test_values_out_of_range_and_managers_of_their_own_are_refused() -> None:
    for wrong, text in (
        ({"host_blocks": 0}, "host_blocks must be an integer from 1 on, got 0"),
        ({"disk_bandwidth": 0}, "disk_bandwidth must be above 0, got 0"),
        ({"load": "never"}, "load must be one of .'always', 'cheaper'., got 'never'"),
    ):
        with pytest.raises(InvalidParameterError, match=text):
            Tiers(**{"host_blocks": 1, **wrong})  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="needs KVCacheManager"):
        simulate_tiers([], policy_config("sequence_group", ENGINE), STEPS, Tiers(9))
