"""The honest model (labkit.testing.honest) for a scheduler with drafts: it computes them behind a request's tokens.

What it says about each draft goes through `accept` of the engine, so that verification is a part of what is tested.
"""

from types import SimpleNamespace
from typing import Any

from labkit.testing.honest import NOTHING, HonestModel, sample
from labkit.testing.honest import next_token as next_token
from mini_vllm.spec_decode import verify
from mini_vllm.step import Chunk, Sample, SampledToken, StepInput


class SpeculatingModel(HonestModel):
    """Reads and writes the slots of one scheduler, those of drafts too."""

    def execute(self, output: Any) -> dict[str, list[int]]:
        """Do a step; the tokens of each request that is to be sampled: its right drafts, and one more."""
        requests = [with_drafts(request, output) for request in output.scheduled_requests]
        counts = output.num_scheduled_tokens
        super().execute(SimpleNamespace(scheduled_requests=requests, num_scheduled_tokens=counts, sampling_along={}))
        chunks, sampled = [], []
        for request in requests:
            name, start, n = request.request_id, request.num_computed_tokens, counts[request.request_id]
            values = [self.device.get((2, *slot), NOTHING) for slot in self.slots(request, start + n)]
            first = max(request.num_tokens - 1 - start, 0) if self.scheduler.needs_sample(request, n) else n
            rows = range(first, n)
            sampled += [SampledToken(sample(name, values[: start + row + 1]), None) for row in rows]
            tokens = tuple(request.all_token_ids[start : start + n])
            chunks.append(Chunk(name, tokens, start, samples=tuple(Sample(name, row) for row in rows)))
        accepted = verify.accept(StepInput.of(chunks), sampled)
        return {name: [token.token_id for token in tokens] for name, tokens in accepted.tokens.items()}


def with_drafts(request: Any, output: Any) -> Any:
    """The request as the step computes it: its drafts stand behind the tokens that it knows."""
    return SimpleNamespace(
        request_id=request.request_id,
        num_computed_tokens=request.num_computed_tokens,
        num_tokens=request.num_tokens,
        all_token_ids=[*request.all_token_ids, *output.drafts.get(request.request_id, ())],
    )
