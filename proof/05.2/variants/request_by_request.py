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
