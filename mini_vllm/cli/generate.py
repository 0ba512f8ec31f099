"""mini-vllm generate: complete prompts."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from mini_vllm.cli.common import (
    PROMPTS,
    busy,
    load_llm,
    option,
    prompts_of,
    read_stdin,
    sampling_params,
)
from mini_vllm.config import EngineConfig
from mini_vllm.frontend.output_processor import RequestOutput
from mini_vllm.observe.files import check_text


def generate(
    config: EngineConfig,
    sampling: dict[str, Any],
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="PROMPT", help="Texts to complete; - reads stdin.")
    ] = None,
    file: typer.FileText | None = PROMPTS,
    n: int = option(1, "Choices per prompt.", "--n", "-n"),
    stop: list[str] | None = option(None, "End before this string; may be given again."),
    as_json: bool = option(False, "Print a JSON list of RequestOutputs.", "--json"),
) -> None:
    """Complete prompts, as plain text.

    No chat template is applied: to ask a chat model, use `mini-vllm chat --message`.
    """
    prompts = [read_stdin() or "" if text == "-" else text for text in texts or ()]
    if file or not prompts:
        prompts += prompts_of(file)
    for prompt in prompts:
        check_text("the prompt", prompt)
    llm = load_llm(config)
    params = sampling_params(llm, **{"max_tokens": 128, **sampling}, n=n, stop=stop or ())
    if len(prompts) == 1 and n == 1 and not as_json:
        for delta in llm.stream(prompts[0], params):
            typer.echo(delta.outputs[0].text, nl=False)
        typer.echo()
        raise_error_of([delta])
        return
    with busy(f"generating {len(prompts) * n} texts"):
        outputs = llm.generate(prompts, params, use_progress=False)
    if as_json:
        typer.echo(json.dumps([*map(asdict, outputs)], ensure_ascii=False, indent=2, default=str))
    else:
        for prompt, output in zip(prompts, outputs, strict=True):
            for choice in output.outputs:
                which = f" (choice {choice.index})" if n > 1 else ""
                typer.secho(f"> {prompt}{which}", bold=True)
                typer.echo(f"{choice.text}\n")
    raise_error_of(outputs)


def raise_error_of(outputs: Sequence[RequestOutput]) -> None:
    """Raise what ended the first choice that ended with an error, when all that there is has been
    printed.
    """
    for output in outputs:
        for choice in output.outputs:
            if choice.error:
                raise choice.error
