"""What a client asks for, as the engine's front takes it: prompts, and how to sample.

Template and tokenizer run in a thread, while the event loop serves other clients.
"""

import asyncio

from mini_vllm.frontend.tool_calls.form import AssistantForm
from mini_vllm.frontend.tools import ToolUse
from mini_vllm.params import SamplingParams
from mini_vllm.serving.async_engine import AsyncEngine
from mini_vllm.serving.openai.errors import refusals
from mini_vllm.serving.openai.protocol import (
    MAX_PROMPTS,
    ApiError,
    ChatCompletionRequest,
    CompletionRequest,
    SharedRequest,
)


async def read_chat(
    engine: AsyncEngine, asked: ChatCompletionRequest
) -> tuple[list[int], SamplingParams, AssistantForm]:
    """Prompt, sampling and form of the answer to a conversation. Raises ApiError."""
    messages = [message.for_template() for message in asked.messages]
    reader = engine.input_processor
    with refusals("messages"):
        # before any work on what cannot be taken
        engine.check_queue(asked.n or 1, asked.cache_salt)
        use = ToolUse(asked.tools, asked.tool_choice, asked.parallel_tool_calls)
        options = asked.template_options() | {"tools": use.tools}
        prompt = await asyncio.to_thread(reader.apply_chat_template, messages, **options)
    params = sampling_params(engine, asked, len(prompt), asked.asked_max_tokens, "messages")
    with refusals("messages"):
        params = use.constrain(params)
        form = await asyncio.to_thread(reader.form_of, prompt, use, params)
    return prompt, form.constrain(params), form


async def read_prompts(
    engine: AsyncEngine, asked: CompletionRequest
) -> list[tuple[list[int], SamplingParams, str | list[int]]]:
    """Token ids and sampling of each prompt, and how it was given. Raises ApiError."""
    prompts = asked.prompts
    if len(prompts) > MAX_PROMPTS:
        raise ApiError(
            400,
            f"prompt has {len(prompts)} prompts, at most {MAX_PROMPTS} are allowed",
            param="prompt",
        )
    reader = engine.input_processor
    with refusals("prompt"):
        engine.check_queue(len(prompts) * (asked.n or 1), asked.cache_salt)
        read = await asyncio.to_thread(lambda: [reader.tokenize(each) for each in prompts])
        for number, token_ids in enumerate(read):
            if not token_ids:
                raise ApiError(
                    400, f"prompt {number} has 0 tokens, at least 1 is needed", param="prompt"
                )
            reader.check_vocabulary("prompt", token_ids)
    max_tokens = 16 if asked.asked_max_tokens is None else asked.asked_max_tokens
    return [
        (ids, sampling_params(engine, asked, len(ids), max_tokens, "prompt"), given)
        for given, ids in zip(prompts, read, strict=True)
    ]


def sampling_params(
    engine: AsyncEngine,
    asked: SharedRequest,
    num_prompt_tokens: int,
    max_tokens: int | None,
    prompt_field: str,
) -> SamplingParams:
    """How to sample. Raises ApiError if prompt and max_tokens do not fit."""
    limit = engine.input_processor.limits.max_model_len
    room = limit - num_prompt_tokens
    most = room if max_tokens is None else max(max_tokens, 1)  # 0: its token is not shown
    if room < 1 or most > room:
        wanted = "" if max_tokens is None else f", and max_tokens is {max_tokens}"
        raise ApiError(
            400,
            f"This model's maximum context length is {limit} tokens. The prompt has "
            f"{num_prompt_tokens}{wanted}.",
            param=prompt_field if room < 1 else "max_tokens",
            code="context_length_exceeded",
        )
    kind = "delta" if asked.stream else "final_only"
    options = asked.sampling_options() | {"max_tokens": most, "output_kind": kind}
    return engine.input_processor.default_sampling_params(**options)
