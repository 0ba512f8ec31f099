"""For each request the token that its next row has to compute; None for any, and a request without an entry is at its end."""

from collections.abc import Sequence

from mini_vllm.step import SampledToken, StepInput, StepOutput


def accept(step: StepInput, sampled: Sequence[SampledToken | str]) -> StepOutput:
    expected: dict[str, int | None] = dict.fromkeys(step.sample_req_ids)
    tokens: dict[str, list[SampledToken]] = {}
    errors: dict[str, str] = {}
    for i, request_id in enumerate(step.sample_req_ids):
        if request_id not in expected:
            continue
        if expected[request_id] not in (None, step.token_ids[step.sample_rows[i]]):
            del expected[request_id]
        elif isinstance(entry := sampled[i], str):
            if expected.pop(request_id) is None:
                errors[request_id] = entry
        else:
            tokens[request_id] = [*tokens.get(request_id, []), entry]
            expected[request_id] = entry.token_id
    return StepOutput(tokens=tokens, errors=errors)
