"""mini-vllm trace: what the scheduler decides, step by step, as JSON, as a picture and as a page to
step through.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mini_vllm.cli.common import console, is_ascii_only, load_llm, option, sampling_params
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError, MiniVllmError, is_int, shown
from mini_vllm.observe.files import printable, read_text, write_file
from mini_vllm.observe.page import Figure, caption_of, render_page
from mini_vllm.observe.timeline import render_requests, render_timeline, render_totals
from mini_vllm.observe.trace import TraceRecorder, run_trace

MAX_SCENARIO_BYTES = 64 << 20
MAX_BLOCKS, MAX_REQUESTS, MAX_STEPS, MAX_TOKEN_ID = 1_000_000, 1_000, 20_000, (1 << 63) - 1
NOT_A_SCENARIO = (  # what the scheduler makes of options that are no options
    MiniVllmError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RuntimeError,
)


def trace(
    config: EngineConfig,
    sampling: dict[str, Any],
    prompts: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT", help="Texts to complete.")
    ] = None,
    scenario: Path | None = option(
        None, "Run this trace's requests without a model.", exists=True, dir_okay=False
    ),
    out: Path | None = option(None, "Write the trace to this JSON file.", dir_okay=False),
    free_queue: bool = option(False, "Write the free blocks of the end, too.", "--free-queue"),
    html: Path | None = option(None, "Write a page to step through it.", dir_okay=False),
) -> None:
    """Show every step of the scheduler for prompts or a scenario.

    A scenario is a trace file, or a JSON object with "config" and "requests"; its own config counts
    then, but for --scheduler. The trace has the fields of trace.schema.json, and for prompts also
    `prompt_text` and `output_text`.
    """
    if (scenario is None) == (not prompts):
        raise InvalidParameterError("trace: give prompts or a scenario, and not both")
    record = (
        run_scenario(scenario, config.scheduler)
        if scenario
        else run_prompts(config, sampling, prompts or [])
    )
    show_trace(console(), record)
    if not free_queue:  # of a cache of 30,000 blocks it is nearly all of the file
        record["totals"].pop("final_free_queue", None)
    if out:
        write(out, json.dumps(record, ensure_ascii=False) + "\n")
    if html:
        write(html, page_of(record))


def write(path: Path, text: str) -> None:
    """Write a file and say so."""
    write_file(path, text)
    console(stderr=True).print(f"wrote {printable(path)}", style="dim", markup=False)


def page_of(record: dict[str, Any]) -> str:
    """The trace as one HTML file; of a real run with prompts and answers."""
    told = [spec for spec in record["requests"] if "prompt_text" in spec]
    texts = [f"{spec['id']}: {spec['prompt_text']}{spec.get('output_text', '')}" for spec in told]
    title = f"mini-vllm trace: {record['name']}" if record["name"] else "mini-vllm trace"
    return render_page(title, texts, [Figure(record, caption_of(record))])


def run_scenario(path: Path, scheduler: str) -> dict[str, Any]:
    """The trace of a scenario file, by its own scheduler unless another than v1 is asked for.

    Raises InvalidParameterError for a file that is none.
    """
    text = read_text(path, MAX_SCENARIO_BYTES)
    try:
        scenario = json.loads(text)
        check_scenario(scenario)
        if scheduler != "v1":
            scenario["config"]["scheduler"] = scheduler
        return run_trace(scenario, max_steps=MAX_STEPS)
    except NOT_A_SCENARIO as error:
        refusal = isinstance(error, MiniVllmError)
        reason = f"{error}" if refusal else f"{type(error).__name__} {error}"
        raise InvalidParameterError(f"{printable(path)} is not a scenario: {reason}") from error


def check_scenario(scenario: Any) -> None:
    """What decides how much memory and time a scenario takes. Raises InvalidParameterError."""

    def require(name: str, value: object, holds: bool, limit: str) -> None:
        if not holds:
            raise InvalidParameterError(f"{name} must be {limit}, got {shown(value)}")

    require("it", scenario, isinstance(scenario, dict), "a JSON object")
    config, requests = scenario.get("config"), scenario.get("requests")
    require("config", config, isinstance(config, dict), "a JSON object")
    for name, default, least in (("num_blocks", None, 2), ("num_cpu_blocks", 0, 0)):
        value = config.get(name, default)
        require(
            name,
            value,
            is_int(value, least, MAX_BLOCKS),
            f"an integer in [{least}, {MAX_BLOCKS:,}]",
        )
    require(
        "requests",
        requests,
        isinstance(requests, list) and requests != [],
        "a list that is not empty",
    )
    require(
        "their number", len(requests), len(requests) <= MAX_REQUESTS, f"at most {MAX_REQUESTS:,}"
    )
    for spec in requests:
        require("a request", spec, isinstance(spec, dict), "a JSON object")
        name, prompt, max_tokens = (spec.get(key) for key in ("id", "prompt", "max_tokens"))
        require(
            "the id of a request",
            name,
            isinstance(name, str) and 0 < len(name) <= 200,
            "a short text",
        )
        is_prompt = isinstance(prompt, list) and all(
            is_int(token, 0, MAX_TOKEN_ID) for token in prompt
        )
        require(
            f"the prompt of {shown(name)}",
            prompt,
            is_prompt,
            f"a list of integers in [0, {MAX_TOKEN_ID:,}]",
        )
        require(
            f"max_tokens of {shown(name)}",
            max_tokens,
            is_int(max_tokens, 1),
            "an integer of at least 1",
        )
    names = [spec["id"] for spec in requests]
    require(
        "the ids of requests", names, len(set(names)) == len(names), "different from each other"
    )


def run_prompts(
    config: EngineConfig, sampling: dict[str, Any], prompts: list[str]
) -> dict[str, Any]:
    """The trace of a real run, with the texts beside the token ids."""
    llm = load_llm(config)
    recorder = TraceRecorder(llm.engine.scheduler, stats=True)
    llm.engine.listeners.append(recorder)
    params = sampling_params(llm, **{"max_tokens": 64, "temperature": 0.0, **sampling})
    outputs = llm.generate(prompts, params, use_progress=False)
    record = recorder.to_trace("prompts")
    texts = {
        output.request_id: (prompt, output) for prompt, output in zip(prompts, outputs, strict=True)
    }
    for spec in record["requests"]:
        prompt, output = texts[spec["id"]]
        spec.update(prompt_text=prompt, output_text=output.outputs[0].text)
    return record


def show_trace(screen: Console, record: dict[str, Any]) -> None:
    """Timeline, requests and totals."""
    ascii_only = is_ascii_only(screen)
    screen.print(render_timeline(record, width=screen.width, ascii_only=ascii_only), crop=False)
    screen.print(render_requests(record))
    screen.print(render_totals(record, ascii_only=ascii_only))
