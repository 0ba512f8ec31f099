"""A step, one request at a time: how the engine finds out whose fault it is that steps fail."""

from mini_vllm.errors import ExecutorLostError
from mini_vllm.step import PromptLogprobs, SampledToken, StepInput, StepOutput
from mini_vllm.worker.chunks import chunks_of
from mini_vllm.worker.executor import Executor

NUM_TRIES = 4  # of each request: a fault that comes and goes is no request's


def execute_one_by_one(
    executor: Executor, step: StepInput
) -> tuple[StepOutput, dict[str, Exception]]:
    """Run a step in parts: what happens to the KV cache, then each request by itself, in their
    order.

    step has to send all its requests again, so that a part can be tried again. Returns what came of
    all parts, and what the requests raised that failed in every try. If there are any, the whole
    step has to be undone: other requests may rely on what these were to write. Raises what the part
    without requests raises.
    """
    first = StepInput(
        finished_req_ids=step.finished_req_ids, forget_all=step.forget_all, kv=step.kv
    )
    kv = executor.execute(first).result().kv
    tokens: dict[str, list[SampledToken]] = {}
    errors: dict[str, str] = {}
    prompt_logprobs: dict[str, PromptLogprobs] = {}
    failed: dict[str, Exception] = {}
    for chunk in chunks_of(step):
        request_id = chunk.request_id
        names = {request_id, *(sample.request_id for sample in chunk.samples)}
        targets = {name: ids for name, ids in step.prompt_targets.items() if name == request_id}
        rows = {name: row for name, row in step.new_rows.items() if name in names}
        masks = {name: mask for name, mask in step.masks.items() if name in names}
        part = StepInput.of([chunk], rows, prompt_targets=targets, masks=masks)
        for _ in range(NUM_TRIES):
            try:
                result = executor.execute(part).result()
            except ExecutorLostError:
                raise
            except Exception as error:
                failed[request_id] = error
            else:
                failed.pop(request_id, None)
                tokens |= result.tokens
                errors |= result.errors
                prompt_logprobs |= result.prompt_logprobs
                break
    return StepOutput(tokens, kv, errors, prompt_logprobs), failed
