# === request_by_request
"""The samples are sorted by request first; then the number of right drafts is counted."""

from collections.abc import Sequence
from itertools import takewhile

from mini_vllm.step import SampledToken, StepInput, StepOutput


def accept(step: StepInput, sampled: Sequence[SampledToken | str]) -> StepOutput:
    entries: dict[str, list[tuple[int, SampledToken | str]]] = {}
    for request_id, row, entry in zip(step.sample_req_ids, step.sample_rows, sampled):
        entries.setdefault(request_id, []).append((step.token_ids[row], entry))
    output = StepOutput()
    for request_id, rows in entries.items():
        pairs = zip(rows, rows[1:])  # a row, and the one behind it
        right = takewhile(lambda pair: not isinstance(pair[0][1], str) and pair[0][1].token_id == pair[1][0], pairs)
        counted = [entry for _, entry in rows[: 1 + sum(1 for _ in right)]]
        tokens = [entry for entry in counted if not isinstance(entry, str)]
        if tokens:
            output.tokens[request_id] = tokens
        else:
            output.errors[request_id] = counted[0]
    return output


# === what_is_expected
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
