"""What the engine counts reaches GET /metrics."""

from prometheus_client import CollectorRegistry, generate_latest

from mini_vllm.offload.remote.work import TransferStats
from mini_vllm.serving.counted.metrics import CountedMetrics
from mini_vllm.serving.counted.reader import LoadsReader
from mini_vllm.serving.messages import StepDone


class Ranks:
    """An executor that counts how often it is asked."""

    num_asked = 0

    def expert_loads(self) -> dict[int, list[int]]:
        self.num_asked += 1
        return {0: [self.num_asked, 0]}


def test_ranks_are_asked_once_a_second_at_most() -> None:
    ranks, times = Ranks(), [10.0, 10.0, 10.1, 10.9, 11.0, 11.5, 13.0, 13.9]
    reader = LoadsReader(ranks, iter(times).__next__)
    found = [reader.read().get(0) for _ in times[1:]]
    assert found == [[1, 0], None, None, [2, 0], None, [3, 0], None]
    assert LoadsReader(object(), lambda: 0.0).read() == {}  # of a model in one process


def test_loads_of_experts_are_counters_by_layer_and_expert() -> None:
    registry = CollectorRegistry()
    metrics = CountedMetrics(registry, "name", None)
    assert b"expert" not in generate_latest(registry)
    for loads in ({3: [1, 2]}, {3: [5, 2]}, {}):  # a step without them says nothing new
        metrics.take(StepDone([], None, None, 0, 0, 0.0, expert_loads=loads))
    lines = generate_latest(registry).decode().splitlines()
    rows = [
        f'mini_vllm:expert_tokens_total{{expert="{i}",layer="3",model_name="name"}} '
        for i in (0, 1)
    ]
    assert [line for line in lines if "expert_tokens_total{" in line] == [
        f"{rows[0]}5.0",
        f"{rows[1]}2.0",
    ]


def test_blocks_that_travel_are_counters_of_a_server_with_a_role() -> None:
    registry = CollectorRegistry()
    metrics = CountedMetrics(registry, "name", None)
    metrics.take(StepDone([], None, None, 0, 0, 0.0))
    assert generate_latest(registry) == b""
    stats = TransferStats(num_lent=5, num_expired=1, num_pulled=4, num_missed=3, num_failed=2)
    metrics.take(StepDone([], None, None, 0, 0, 0.0, transfers=stats))
    lines = generate_latest(registry).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'mini_vllm:kv_lent_blocks_total{model_name="name"} 5.0',
        'vllm:nixl_num_kv_expired_reqs_total{model_name="name"} 1.0',
        'mini_vllm:kv_pulled_blocks_total{model_name="name"} 4.0',
        'mini_vllm:kv_missed_blocks_total{model_name="name"} 3.0',
        'vllm:nixl_num_failed_transfers_total{model_name="name"} 2.0',
    ]
