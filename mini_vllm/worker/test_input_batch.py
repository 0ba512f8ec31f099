"""What the runner remembers: after any history of steps the same batch as if every step had sent
everything.
"""

import contextlib
import random
from collections import Counter
from concurrent.futures import Future
from multiprocessing import Pipe
from typing import Any

import pytest
import torch

from mini_vllm.attention import AttentionMetadata, AttentionSpec, PackedRequest, PagedAttention
from mini_vllm.attention import backend as attention_backend
from mini_vllm.attention import metadata as attention_metadata
from mini_vllm.attention.torch_backend import TorchBackend
from mini_vllm.engine.recovery import RecoveringCore
from mini_vllm.errors import InvalidParameterError, RequestRefusedError
from mini_vllm.params import SamplingParams
from mini_vllm.policies.registry import SCHEDULERS, make_scheduler
from mini_vllm.request import Request
from mini_vllm.scheduler import SchedulerInterface
from mini_vllm.step import (
    Chunk,
    ModelInfo,
    Sample,
    SampledToken,
    SamplingRow,
    StepInput,
    StepOutput,
)
from mini_vllm.worker.chunks import chunks_of
from mini_vllm.worker.executor import Executor
from mini_vllm.worker.input_batch import InputBatch
from mini_vllm.worker.memory import KVCachePlan

CPU = torch.device("cpu")
PENALISED = SamplingParams(repetition_penalty=2.0)
PLAIN = SamplingParams()


def make_batch(block_size: int = 4) -> InputBatch:
    return InputBatch(block_size, CPU)


def take(batch: InputBatch, step: StepInput):
    """Update and pack, as the runner does."""
    batch.update(step)
    return batch.pack(step)


def test_a_history_of_deltas_packs_like_whole_tables() -> None:
    """A random walk: requests come, grow, are sent again after a preemption, and end; ids are used
    again.
    """
    ours, theirs = Pipe()
    for seed in range(20):
        rng, batch, block_size = (
            random.Random(seed),
            make_batch(block_size=1 + seed % 5),
            1 + seed % 5,
        )
        tables: dict[str, list[int]] = {}
        lens: dict[str, int] = {}
        finished: list[str] = []
        for _ in range(40):
            chunks, new_rows = [], {}
            for name in rng.sample("abcdefghijklmnop", rng.randint(1, 12)):
                if name in tables and rng.random() < 0.1:
                    del tables[name]
                    # ended, and the id is used again; or only preempted
                    finished += [name] * rng.randint(0, 1)
                is_new = name not in tables
                if is_new:
                    tables[name], lens[name], new_rows[name] = (
                        [],
                        rng.randint(0, 9),
                        SamplingRow(PLAIN),
                    )
                n = rng.choice((1, 1, 3, 7))
                needed = -(-(lens[name] + n) // block_size) - len(tables[name])
                new = tuple(
                    rng.randrange(1, 10_000) for _ in range(needed + (is_new and rng.randint(0, 2)))
                )
                tables[name] += new
                rows = sorted(rng.sample(range(n), rng.randint(0, n)))
                token_ids = tuple(rng.randrange(100) for _ in range(n))
                samples = tuple(Sample(name, row) for row in rows)
                chunks.append(Chunk(name, token_ids, lens[name], (new,) if new else (), samples))
            step = StepInput.of(chunks, new_rows, finished_req_ids=tuple(finished))
            assert chunks_of(step) == chunks
            ours.send(step)  # pickled, as between processes
            packed = take(batch, theirs.recv())
            finished = []
            whole = AttentionMetadata.pack(
                [
                    PackedRequest(tables[c.request_id], c.num_computed_tokens, len(c.token_ids))
                    for c in chunks
                ],
                block_size,
                CPU,
            )
            for name in ("positions", "slot_mapping", "query_start_loc", "seq_lens"):
                assert torch.equal(getattr(packed.metadata[0], name), getattr(whole, name)), name
            assert packed.input_ids.tolist() == [
                token_id for c in chunks for token_id in c.token_ids
            ]
            positions = packed.metadata[0].positions[packed.sample_rows] + 1
            assert packed.sample_positions == positions.tolist()
            assert len(packed.sample_positions) == sum(len(c.samples) for c in chunks)
            for c in chunks:
                lens[c.request_id] += len(c.token_ids)


def test_penalties_see_every_token_before_theirs() -> None:
    batch = make_batch()
    row = SamplingRow(PENALISED, num_prompt_tokens=5, token_ids=(1, 2, 3, 4, 5))
    take(batch, StepInput.of([Chunk("a", (1, 2, 3), 0, ((1, 2),))], {"a": row}))
    packed = take(batch, StepInput.of([Chunk("a", (4, 5), 3, (), (Sample("a", 1),))]))
    assert batch.known_token_ids(["a"], packed.sample_positions) == {0: [1, 2, 3, 4, 5]}
    packed = take(batch, StepInput.of([Chunk("a", (6,), 5, (), (Sample("a", 0),))]))
    assert batch.known_token_ids(["a"], packed.sample_positions) == {0: [1, 2, 3, 4, 5, 6]}


def test_drafts_that_were_wrong_are_not_penalised() -> None:
    batch = make_batch()
    row = SamplingRow(PENALISED, num_prompt_tokens=1, token_ids=(1,))
    samples = (Sample("a", 0), Sample("a", 1), Sample("a", 2))
    packed = take(batch, StepInput.of([Chunk("a", (1, 70, 71), 0, ((1,),), samples)], {"a": row}))
    assert batch.known_token_ids(["a"] * 3, packed.sample_positions) == {
        0: [1],
        1: [1, 70],
        2: [1, 70, 71],
    }
    packed = take(batch, StepInput.of([Chunk("a", (2,), 1, (), (Sample("a", 0),))]))
    assert batch.known_token_ids(["a"], packed.sample_positions) == {0: [1, 2]}


def test_a_fork_samples_from_the_row_of_another() -> None:
    batch = make_batch()
    samples = (Sample("a", 1), Sample("b", 1))
    rows = {"a": SamplingRow(PLAIN, 1), "b": SamplingRow(PLAIN, 2)}
    packed = take(batch, StepInput.of([Chunk("a", (1, 2), 0, ((1,),), samples)], rows))
    assert packed.sample_rows.tolist() == [1, 1]
    assert [batch.sampling_rows[name].seed for name in "ab"] == [1, 2]


def test_padding_is_the_only_token_id_below_zero_that_is_packed() -> None:
    batch, table = InputBatch(4, torch.device("cpu")), ((1, 2),)
    for token_ids in ((7, -1, -1), (7, -2, 8)):
        step = StepInput.of([Chunk("a", token_ids, 0, table)], {"a": SamplingRow(SamplingParams())})
        batch.update(step)
        if min(token_ids) == -1:
            assert batch.pack(step).input_ids.tolist() == [7, 0, 0]
        else:
            with pytest.raises(AssertionError, match="token id -2 stands for no token"):
                batch.pack(step)


def test_nothing_of_a_finished_request_stays() -> None:
    batch = make_batch()
    rows = {"a": SamplingRow(PENALISED, token_ids=(1,)), "b": SamplingRow(PLAIN)}
    take(batch, StepInput.of([Chunk("a", (1,), 0, ((3,),)), Chunk("b", (1,), 0, ((4,),))], rows))
    batch.update(StepInput(finished_req_ids=("a", "nobody")))
    assert ("a" in batch, "b" in batch) == (False, True)
    assert not batch.sampling.looking_back
    with pytest.raises(KeyError, match="'a'"):
        batch.pack(StepInput.of([Chunk("a", (1,), 1)]))
    batch.update(StepInput(finished_req_ids=("b",)))
    assert not batch.sampling_rows


def test_a_table_that_is_too_short_is_refused() -> None:
    """Else the rest would be read from block 0, or from what an earlier request left in the row."""
    batch = make_batch(block_size=4)
    rows = {"long": SamplingRow(PLAIN), "short": SamplingRow(PLAIN)}
    take(
        batch,
        StepInput.of(
            [Chunk("long", (1,) * 20, 0, ((1, 2, 3, 4, 5),)), Chunk("short", (1,), 0, ((6,),))],
            rows,
        ),
    )
    with pytest.raises(
        InvalidParameterError, match="1 blocks have room for 4 tokens, its sequence has 5"
    ):
        take(batch, StepInput.of([Chunk("long", (1,), 19), Chunk("short", (1,), 4)]))


# --- groups of layers --------------------------------------------------------------------------


SHARED = ("positions", "query_start_loc", "seq_lens", "query_lens_cpu", "seq_lens_cpu")


@pytest.mark.parametrize(("num_groups", "num_plans", "num_updates"), [(1, 1, 0), (6, 2, 4)])
def test_groups_share_all_but_their_block_tables(
    num_groups: int, num_plans: int, num_updates: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is uploaded, planned and checked for 24 layers, by its number."""
    seen = Counter[str]()

    def count(owner: Any, name: str) -> None:
        called = getattr(owner, name)

        def counted(*arguments: Any) -> Any:
            seen[name] += 1
            return called(*arguments)

        monkeypatch.setattr(owner, name, counted)

    for owner, name in (
        (attention_metadata, "to_device"),
        (attention_metadata, "ragged"),
        (attention_backend, "check_cache"),
        (TorchBackend, "plan"),
    ):
        count(owner, name)
    batch = InputBatch(4, CPU, num_groups)
    tables = [tuple(range(10 * g + 1, 10 * g + 4)) for g in range(num_groups)]
    rows = {name: SamplingRow(PLAIN, i) for i, name in enumerate("ab")}
    chunks = [Chunk("a", (1,), 8, tuple(tables)), Chunk("b", (1, 2), 0, tuple(tables))]
    packed = take(batch, StepInput.of(chunks, rows))
    assert seen == {"to_device": 3 + 2 * num_groups, "ragged": 1}
    first = packed.metadata[0]
    for table, each in zip(tables, packed.metadata, strict=True):
        assert all(getattr(each, name) is getattr(first, name) for name in SHARED)
        assert each.block_tables.tolist() == [[*table]] * 2
        assert each.slot_mapping.tolist() == [4 * table[2], 4 * table[0], 4 * table[0] + 1]

    layer_groups = [layer % num_groups for layer in range(24)]
    specs = [AttentionSpec(2, 1, 8, 1.0, 6 if g else None) for g in layer_groups]
    memory = [torch.zeros(64, 4, 1, 8) for _ in range(24 // num_groups)]
    caches = [(memory[layer // num_groups],) * 2 for layer in range(24)]
    attend = PagedAttention(TorchBackend(), caches, packed.metadata, specs, layer_groups)
    assert seen["plan"] == num_plans
    assert seen["check_cache"] == len(memory) * num_plans, "of each tensor for each kind of layers"
    plans = {id(plan): plan for plan in attend.plans}
    assert len(plans) == num_groups == num_plans + num_updates
    assert len({id(plan.pages) for plan in plans.values()}) == num_plans
    for group, plan in zip(layer_groups, attend.plans, strict=True):
        # position 8 sees those from 0 on, or from 3 on
        assert plan.blocks[0].tolist() == [*tables[group]]


# --- behind every scheduler -----------------------------------------------------------------------


class CheckingExecutor(Executor):
    """No model: every step is checked against the scheduler's own tables, and answered with a hash
    of the position.
    """

    def __init__(self, scheduler: SchedulerInterface, rng: random.Random) -> None:
        self.scheduler = scheduler
        self.rng = rng
        self.may_fail = True
        self.batch = make_batch(scheduler.kv_cache_manager.block_size)

    def load(self) -> ModelInfo:
        raise NotImplementedError

    def available_bytes(self) -> int:
        raise NotImplementedError

    def allocate(self, plan: KVCachePlan) -> None:
        raise NotImplementedError

    def synchronize(self) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def execute(self, step: StepInput) -> "Future[StepOutput]":
        if self.may_fail and self.rng.random() < 0.1:
            raise RuntimeError("before the runner saw the step")
        self.batch.update(step)
        if self.may_fail and self.rng.random() < 0.1:
            raise RuntimeError("after it")
        kv, requests = self.scheduler.kv_cache_manager, self.scheduler._requests
        for chunk in chunks_of(step):
            row = self.batch._rows[chunk.request_id]
            num_blocks = self.batch.block_tables.num_blocks([row])[0, 0]
            ids = self.batch.block_tables.gather([row], num_blocks)
            assert ids[0, 0].tolist() == kv.get_block_ids(chunk.request_id)
            tokens = requests[chunk.request_id].all_token_ids
            end = chunk.num_computed_tokens + len(chunk.token_ids)
            assert tokens[chunk.num_computed_tokens : end] == list(chunk.token_ids)
        packed = self.batch.pack(step) if step.req_ids else None
        known = (
            self.batch.known_token_ids(step.sample_req_ids, packed.sample_positions)
            if packed
            else {}
        )
        for i, request_id in enumerate(step.sample_req_ids):
            request = requests[request_id]
            assert known.get(i) == (
                request.all_token_ids if request.sampling_params.has_penalties else None
            )
        future: Future[StepOutput] = Future()
        future.set_result(
            StepOutput(
                {name: [SampledToken(self.rng.randrange(50), None)] for name in step.sample_req_ids}
            )
        )
        return future


VARIANTS: list[dict[str, Any]] = [
    *({"scheduler": name} for name in SCHEDULERS),
    {"scheduler": "v1", "policy": "priority"},
    {"scheduler": "v1", "preemption_mode": "swap", "num_cpu_blocks": 30},
    {"scheduler": "sequence_group", "num_cpu_blocks": 30},
]


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(each, marks=() if each in (VARIANTS[0], VARIANTS[-1]) else pytest.mark.slow)
        for each in VARIANTS
    ],
    ids=lambda options: "-".join(map(str, options.values())),
)
def test_the_runner_knows_what_the_scheduler_knows(options: dict[str, Any]) -> None:
    """Random arrivals, aborts, choices, preemptions and steps that raise: the runner's tables are
    the scheduler's.
    """
    num_preempted = 0
    for seed in range(5):
        rng = random.Random(seed)
        config = {"num_blocks": rng.randint(12, 30), "block_size": rng.choice((1, 2, 4)),
        "max_num_seqs": 6,
                  "max_num_batched_tokens": rng.choice((8, 20, 64)), "max_model_len": 24,
                  **options}  # fmt: skip
        scheduler = make_scheduler(config)
        core = RecoveringCore(scheduler, executor := CheckingExecutor(scheduler, rng))
        names: list[str] = []
        for step in range(150):
            gone: str | None = None
            if step < 100 and rng.random() < 0.4:
                n = rng.choice((1, 1, 3))
                params = SamplingParams(max_tokens=rng.randint(1, 9), ignore_eos=True, n=n,
                                        presence_penalty=rng.choice((0.0, 1.0)))  # fmt: skip
                prompt = [rng.randrange(4) for _ in range(rng.randint(1, 10))]
                group = [
                    Request(f"{step}-{i}", prompt, params, choice_index=i, arrival_time=step)
                    for i in range(n)
                ]
                with contextlib.suppress(RequestRefusedError):
                    core.add(group)
                    names += [request.request_id for request in group]
            if names and rng.random() < 0.1:
                core.finish([rng.choice(names)], "abort")
            if core.has_unfinished_requests():
                begun = core.begin_step()
                # between the halves; the id may be used again at once
                if names and rng.random() < 0.2:
                    gone = rng.choice(names)
                    core.finish([gone], "abort")
                    if rng.random() < 0.5:
                        core.add(
                            [
                                Request(
                                    gone, [1, 2, 3], SamplingParams(max_tokens=3), arrival_time=step
                                )
                            ]
                        )
                if error := begun.future.exception():
                    core.fail_step(begun, error)
                else:
                    assert all(
                        delta.request_id != gone
                        for delta in core.finish_step(begun, begun.future.result())
                    )
            num_preempted += any(request.num_preemptions for request in scheduler.waiting)
        executor.may_fail = False
        for _ in range(2000):
            if not core.has_unfinished_requests():
                break
            core.step()
        assert not core.has_unfinished_requests()
        view = core.runner_view
        assert not view._known
        executor.batch.update(
            StepInput(finished_req_ids=tuple(view._finished_req_ids), forget_all=view.forget_all)
        )
        assert not executor.batch.sampling_rows, "the runner remembers nobody who has finished"
    assert num_preempted
