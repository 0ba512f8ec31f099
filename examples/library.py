"""What a program does with the library, which the book shows: `python examples/library.py` prints what comes of it."""

from typing import Any, Literal


def generate() -> None:
    """Two prompts in one call."""
    from mini_vllm import LLM, SamplingParams

    llm = LLM("tiny")  # the bundled model; or a folder, or a name on the Hugging Face hub
    params = SamplingParams(temperature=0.0, max_tokens=40)
    for output in llm.generate(["A KV block is", "Chunked prefill spreads"], params):
        print(output.num_cached_tokens, output.outputs[0].text)


def num_free_blocks(pool: Literal["gpu", "cpu"]) -> int:
    """
    Counts the free blocks.

    Args:
        pool: Which pool.
    """
    return {"gpu": 12, "cpu": 40}[pool]


def call_a_tool(llm: Any) -> None:
    """The model calls num_free_blocks(), and the conversation goes on behind the result."""
    import json

    from mini_vllm import SamplingParams

    messages = [{"role": "user", "content": "How many blocks are free?"}]
    options = {"tools": [num_free_blocks], "tool_choice": "required", "parallel_tool_calls": False}
    (output,) = llm.chat(messages, SamplingParams(temperature=0.0, max_tokens=300), **options)
    answer = output.outputs[0].message
    messages.append(answer)
    for call in answer["tool_calls"]:
        result = num_free_blocks(**json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
    for message in messages:
        print(message)


if __name__ == "__main__":
    from mini_vllm import LLM

    generate()
    call_a_tool(LLM("tiny"))
