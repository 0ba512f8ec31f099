"""Which drafts were right, from what the model says behind each of them."""

from collections.abc import Sequence

from mini_vllm.step import SampledToken, StepInput, StepOutput

PADDING = -1  # a draft that stands for none, and that no token equals


def accept(step: StepInput, sampled: Sequence[SampledToken | str]) -> StepOutput:
    """The tokens of each request: after right drafts as many as these, and one more. sampled [S]: a
    token or an error.

    The row behind a draft counts if the draft is the token that was sampled for its place. The
    noise depends on the place alone, so these are the tokens that the request would get one by one.
    An error behind a right draft is left to the next step, which meets it again.
    """
    tokens: dict[str, list[SampledToken]] = {}
    errors: dict[str, str] = {}
    done: set[str] = set()  # requests whose further rows follow a wrong draft
    for request_id, row, token in zip(step.sample_req_ids, step.sample_rows, sampled, strict=True):
        before = tokens.get(request_id)
        if request_id in done or (before and before[-1].token_id != step.token_ids[row]):
            done.add(request_id)
        elif isinstance(token, SampledToken):
            tokens.setdefault(request_id, []).append(token)
        else:
            done.add(request_id)
            if not before:
                errors[request_id] = token
    return StepOutput(tokens, errors=errors)
