"""What the runner remembers: after any history of steps the same batch as if every step had sent everything."""

import random
from multiprocessing import Pipe

import pytest
import torch

from mini_vllm.attention import AttentionMetadata, PackedRequest
from mini_vllm.errors import InvalidParameterError
from mini_vllm.params import SamplingParams
from mini_vllm.step import Chunk, Sample, SamplingRow, StepInput
from mini_vllm.worker.input_batch import InputBatch

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
    """A random walk: requests come, grow, are sent anew after a preemption, and end; ids are used again."""
    ours, theirs = Pipe()
    for seed in range(20):
        rng, batch, block_size = random.Random(seed), make_batch(block_size=1 + seed % 5), 1 + seed % 5
        tables: dict[str, list[int]] = {}
        lens: dict[str, int] = {}
        finished: list[str] = []
        for _ in range(40):
            chunks, new_rows = [], {}
            for name in rng.sample("abcdefghijklmnop", rng.randint(1, 12)):
                if name in tables and rng.random() < 0.1:
                    del tables[name]
                    finished += [name] * rng.randint(0, 1)  # ended, and the id is used again; or only preempted
                is_new = name not in tables
                if is_new:
                    tables[name], lens[name], new_rows[name] = [], rng.randint(0, 9), SamplingRow(PLAIN)
                n = rng.choice((1, 1, 3, 7))
                needed = -(-(lens[name] + n) // block_size) - len(tables[name])
                new = tuple(rng.randrange(1, 10_000) for _ in range(needed + (is_new and rng.randint(0, 2))))
                tables[name] += new
                rows = sorted(rng.sample(range(n), rng.randint(0, n)))
                token_ids = tuple(rng.randrange(100) for _ in range(n))
                samples = tuple(Sample(name, row) for row in rows)
                chunks.append(Chunk(name, token_ids, lens[name], (new,) if new else (), samples))
            step = StepInput.of(chunks, new_rows, finished_req_ids=tuple(finished))
            assert step.chunks() == chunks
            ours.send(step)  # pickled, as between processes
            packed = take(batch, theirs.recv())
            finished = []
            whole = AttentionMetadata.pack(
                [PackedRequest(tables[c.request_id], c.num_computed_tokens, len(c.token_ids)) for c in chunks],
                block_size,
                CPU,
            )
            for name in ("positions", "slot_mapping", "query_start_loc", "seq_lens"):
                assert torch.equal(getattr(packed.metadata, name), getattr(whole, name)), name
            assert packed.input_ids.tolist() == [token_id for c in chunks for token_id in c.token_ids]
            positions = packed.metadata.positions[packed.sample_rows] + 1
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
    assert batch.known_token_ids(["a"] * 3, packed.sample_positions) == {0: [1], 1: [1, 70], 2: [1, 70, 71]}
    packed = take(batch, StepInput.of([Chunk("a", (2,), 1, (), (Sample("a", 0),))]))
    assert batch.known_token_ids(["a"], packed.sample_positions) == {0: [1, 2]}


def test_a_fork_samples_from_the_row_of_another() -> None:
    batch = make_batch()
    samples = (Sample("a", 1), Sample("b", 1))
    rows = {"a": SamplingRow(PLAIN, 1), "b": SamplingRow(PLAIN, 2)}
    packed = take(batch, StepInput.of([Chunk("a", (1, 2), 0, ((1,),), samples)], rows))
    assert packed.sample_rows.tolist() == [1, 1]
    assert [batch.sampling_rows[name].seed for name in "ab"] == [1, 2]


def test_nothing_of_a_finished_request_stays() -> None:
    batch = make_batch()
    rows = {"a": SamplingRow(PENALISED, token_ids=(1,)), "b": SamplingRow(PLAIN)}
    take(batch, StepInput.of([Chunk("a", (1,), 0, ((3,),)), Chunk("b", (1,), 0, ((4,),))], rows))
    batch.update(StepInput(finished_req_ids=("a", "nobody")))
    assert ("a" in batch, "b" in batch) == (False, True)
    assert not batch.token_ids
    with pytest.raises(KeyError, match="'a'"):
        batch.pack(StepInput.of([Chunk("a", (1,), 1)]))
    batch.update(StepInput(finished_req_ids=("b",)))
    assert not batch.sampling_rows


def test_a_table_that_is_too_short_is_refused() -> None:
    """Else the rest would be read from block 0, or from what an earlier request left in the row."""
    batch = make_batch(block_size=4)
    rows = {"long": SamplingRow(PLAIN), "short": SamplingRow(PLAIN)}
    take(batch, StepInput.of([Chunk("long", (1,) * 20, 0, ((1, 2, 3, 4, 5),)), Chunk("short", (1,), 0, ((6,),))], rows))
    with pytest.raises(InvalidParameterError, match="1 blocks have room for 4 tokens, its sequence has 5"):
        take(batch, StepInput.of([Chunk("long", (1,), 19), Chunk("short", (1,), 4)]))
