"""What a client asks for, as the engine's front takes it: prompts, and how to sample.

All of it is read in a thread, in turns between tenants, while the event loop serves other clients.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mini_vllm.frontend.tool_calls.form import AssistantForm
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.params import SamplingParams
from mini_vllm.serving.admission.bounds import (
    check_products,
    check_prompts,
    max_tokens_with_logprobs,
)
from mini_vllm.serving.async_engine import AsyncEngine
from mini_vllm.serving.openai.errors import refusals
from mini_vllm.serving.openai.protocol import (
    ApiError,
    ChatCompletionRequest,
    CompletionRequest,
    SharedRequest,
)

# What a function makes of a client's input, in a thread: Admission.read() for its tenant.
Read = Callable[..., Awaitable[Any]]
Job = tuple[list[int], SamplingParams]
ChatJob = tuple[list[int], SamplingParams, AssistantForm]


async def read_chat(engine: AsyncEngine, asked: ChatCompletionRequest, read: Read) -> ChatJob:
    """Prompt, sampling and form of the answer to a conversation. Raises ApiError."""
    reader = engine.input_processor

    def job_of() -> ChatJob:
        with refusals("messages"):
            use = ToolUse(asked.tools, asked.tool_choice, asked.parallel_tool_calls)
            options = asked.template_options() | {"tools": use.tools}
            prompt = reader.apply_chat_template(
                [message.for_template() for message in asked.messages], **options
            )
        params = sampling_params(engine, asked, [len(prompt)], asked.asked_max_tokens, "messages")
        with refusals("messages"):
            params = use.constrain(params)
            form = reader.form_of(prompt, use, params)
        return prompt, form.constrain(params), form

    with refusals("messages"):
        # before any work on what cannot be taken
        engine.check_queue(asked.n or 1, asked.user)
        job: ChatJob = await read(job_of)
    return job


async def read_prompts(engine: AsyncEngine, asked: CompletionRequest, read: Read) -> list[Job]:
    """Token ids and sampling of each prompt. Raises ApiError."""
    reader = engine.input_processor

    def jobs_of() -> list[Job]:
        special = asked.add_special_tokens is not False
        prompts = [reader.tokenize(each, add_special_tokens=special) for each in asked.prompts]
        for number, token_ids in enumerate(prompts):
            if not token_ids:
                raise ApiError(400, f"prompt {number} has 0 tokens, at least 1 is needed", "prompt")
            reader.check_vocabulary("prompt", token_ids)
        max_tokens = 16 if asked.asked_max_tokens is None else asked.asked_max_tokens
        params = sampling_params(engine, asked, [*map(len, prompts)], max_tokens, "prompt")
        return [(prompt, params) for prompt in prompts]

    with refusals("prompt"):
        check_prompts(asked)
        engine.check_queue(len(asked.prompts) * (asked.n or 1), asked.user)
        jobs: list[Job] = await read(jobs_of)
    return jobs


def sampling_params(
    engine: AsyncEngine,
    asked: SharedRequest,
    num_prompt_tokens: Sequence[int],
    max_tokens: int | None,
    prompt_field: str,
) -> SamplingParams:
    """How to sample, for all prompts. Raises ApiError if one does not fit with max_tokens."""
    limit = engine.input_processor.limits.max_model_len
    longest = max(num_prompt_tokens)
    room = limit - longest
    if room < 1 or (max_tokens or 1) > room:
        wanted = "" if max_tokens is None else f", and max_tokens is {max_tokens}"
        raise ApiError(
            400,
            f"This model's maximum context length is {limit} tokens. The prompt has "
            f"{longest}{wanted}.",
            prompt_field if room < 1 else "max_tokens",
            "context_length_exceeded",
        )
    options = asked.sampling_options()
    if max_tokens is None:
        max_tokens = min(room, max_tokens_with_logprobs(options))
    check_products(options, num_prompt_tokens, max_tokens)
    options |= {
        "max_tokens": max_tokens or 1,
        "output_kind": "delta" if asked.stream else "final_only",
    }
    params = engine.input_processor.default_sampling_params(**options)
    if not params.bad_words:
        return params
    # here, and not for each of a thousand prompts
    bad = engine.input_processor.tokenize_bad_words(params.bad_words)
    return params.changed(bad_words=(), bad_token_ids=bad)
