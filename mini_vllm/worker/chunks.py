"""A step, one request at a time: for those who read or run it in parts."""

from bisect import bisect_right
from itertools import accumulate, pairwise

from mini_vllm.step import Chunk, Sample, StepInput


def chunks_of(step: StepInput) -> list[Chunk]:
    """The chunks of a step, in its order. StepInput.of() makes it of them again."""
    starts = list(accumulate(step.num_scheduled_tokens, initial=0))
    samples: list[list[Sample]] = [[] for _ in step.req_ids]
    for request_id, row in zip(step.sample_req_ids, step.sample_rows, strict=True):
        i = bisect_right(starts, row) - 1
        samples[i].append(Sample(request_id, row - starts[i]))
    return [
        Chunk(
            request_id,
            step.token_ids[start:end],
            num_computed_tokens,
            step.new_block_ids.get(request_id, ()),
            tuple(mine),
        )
        for request_id, num_computed_tokens, (start, end), mine in zip(
            step.req_ids, step.num_computed_tokens, pairwise(starts), samples, strict=True
        )
    ]
