"""mini-vllm trace: what the scheduler decides, step by step, as JSON, as a picture and as a page to step through."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from mini_vllm.cli.common import console, is_ascii_only, load_llm, sampling_params
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError
from mini_vllm.observe.page import Figure, caption_of, render_page, write_file
from mini_vllm.observe.timeline import render_requests, render_timeline, render_totals
from mini_vllm.observe.trace import TraceRecorder, run_trace


def trace(
    config: EngineConfig,
    sampling: dict[str, Any],
    prompts: Annotated[list[str] | None, typer.Argument(metavar="PROMPT", help="Texts to complete.")] = None,
    scenario: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Run this trace's requests without a model.")
    ] = None,
    out: Annotated[Path | None, typer.Option(dir_okay=False, help="Write the trace to this JSON file.")] = None,
    html: Annotated[Path | None, typer.Option(dir_okay=False, help="Write a page to step through it.")] = None,
) -> None:
    """Show every step of the scheduler for prompts or a scenario.

    A scenario is a trace file, or a JSON object with "config" and "requests"; its own config counts then, but for
    --scheduler. The trace has
    the fields of trace.schema.json, and for prompts also `prompt_text` and `output_text`.
    """
    if (scenario is None) == (not prompts):
        raise InvalidParameterError("trace: give prompts or a scenario, and not both")
    record = run_scenario(scenario, config.scheduler) if scenario else run_prompts(config, sampling, prompts or [])
    show_trace(console(), record)
    if out is not None:
        write(out, json.dumps(record, ensure_ascii=False) + "\n")
    if html is not None:
        write(html, page_of(record))


def write(path: Path, text: str) -> None:
    """Write a file and say so."""
    write_file(path, text)
    console(stderr=True).print(f"wrote {path}", style="dim", markup=False)


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
    try:
        scenario = json.loads(path.read_text(encoding="utf-8"))
        if scheduler != "v1":
            scenario["config"]["scheduler"] = scheduler
        return run_trace(scenario)
    except (
        InvalidParameterError,
        json.JSONDecodeError,
        UnicodeDecodeError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        raise InvalidParameterError(f"{path} is not a scenario: {type(error).__name__} {error}") from error


def run_prompts(config: EngineConfig, sampling: dict[str, Any], prompts: list[str]) -> dict[str, Any]:
    """The trace of a real run, with the texts beside the token ids."""
    llm = load_llm(config)
    recorder = TraceRecorder(llm.engine.scheduler, stats=True)
    llm.engine.listeners.append(recorder)
    params = sampling_params(llm, **{"max_tokens": 64, "temperature": 0.0, **sampling})
    outputs = llm.generate(prompts, params, use_progress=False)
    record = recorder.to_trace("prompts")
    texts = {output.request_id: (prompt, output) for prompt, output in zip(prompts, outputs, strict=True)}
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
