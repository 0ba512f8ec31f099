"""The drawn requests of a simulated run: each second of a life has a mark."""

from collections.abc import Sequence

import pytest

from mini_vllm.load.workload import TraceRequest
from mini_vllm.simulator.fleet import simulate
from mini_vllm.simulator.replica import Replica
from mini_vllm.simulator.roles.fleet import simulate_roles
from mini_vllm.simulator.roles.options import Roles
from mini_vllm.simulator.step_time import StepTimeModel
from mini_vllm.simulator.tiers.options import Tiers
from mini_vllm.simulator.tiers.replica import simulate_tiers
from mini_vllm.simulator.timeline.render import render
from mini_vllm.simulator.timeline.spans import Spans

STEPS = StepTimeModel((1.0, 0, 0, 0, 0, 0))  # every step takes a second
ENGINE = {"block_size": 64, "num_blocks": 33, "max_num_seqs": 1, "max_num_batched_tokens": 512}


def rows_of(spans: Spans, num_columns: int) -> Sequence[str]:
    return str(render(spans, width=num_columns + 2, ascii_only=True)).splitlines()


def test_a_request_waits_computes_its_prompt_and_decodes() -> None:
    spans = Spans(2)

    def make(*args: object, **options: bool) -> Replica:
        replica = Replica(*args, **options)  # type: ignore[arg-type]
        spans.watch(replica)
        return replica

    trace = [TraceRequest(0.0, 1024, 3), TraceRequest(0.0, 100, 2), TraceRequest(0.0, 9, 9)]
    simulate(trace, ENGINE, STEPS, replica_cls=make)
    rows = rows_of(spans, 12)
    assert rows[:3] == ["0 ####oooo", "1 ........##oo", "0 s to 6 s, 0.5 s a column"]
    assert rows[3:] == [". waits in a queue", "# computes its prompt", "o decodes"]


def test_a_transfer_lies_between_the_prompt_and_the_first_token() -> None:
    spans = Spans(1)
    roles = Roles(1, 1, bytes_per_token=1, link_bandwidth=50, link_latency=0)  # 2 s
    simulate_roles(
        [TraceRequest(0.0, 100, 2)],
        ENGINE,
        STEPS,
        roles,
        on_replica=spans.watch,
        on_transfer=spans.add,
    )
    assert rows_of(spans, 10)[0] == "0 ##>>>>oooo"


@pytest.mark.parametrize(("disk_blocks", "mark"), [(0, "<"), (1000, ":")])
def test_a_wait_for_the_disk_and_a_load_are_seen(disk_blocks: int, mark: str) -> None:
    def prompt(time: float, first_id: int, num_ids: int) -> TraceRequest:
        ids = tuple(range(first_id, first_id + num_ids))
        return TraceRequest(time, 512 * num_ids + 1, 2, (*ids, first_id + 90_000))

    trace = [
        prompt(0, 0, 2),
        *(prompt(100.0 * i, 1000 * i, 3) for i in (1, 2, 3)),
        prompt(900, 0, 2),
    ]
    spans = Spans(5)
    tiers = Tiers(40 if disk_blocks else 1000, disk_blocks, 1, 1.0, 0, "always")  # 1 s a block
    simulate_tiers(trace, ENGINE, STEPS, tiers, on_replica=spans.watch)
    kinds = {span.kind for span in spans.spans if span.number == 4}
    assert {"load", "decode"} <= kinds
    assert ("disk" in kinds) == bool(disk_blocks)
    assert mark in "".join(rows_of(spans, 900)[4])
    waited = sum(span.end - span.start for span in spans.spans if span.kind == "disk")
    assert waited == pytest.approx(16 if disk_blocks else 0, abs=2)


def test_nothing_is_noted_of_later_requests_and_nothing_is_drawn_of_nothing() -> None:
    spans = Spans(0)
    simulate_roles([TraceRequest(0.0, 9, 2)], ENGINE, STEPS, Roles(1, 1), on_transfer=spans.add)
    assert spans.spans == []
    assert str(render(spans)) == "0 s to 0 s, 1 s a column"
