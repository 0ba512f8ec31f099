"""mini-vllm chat: a conversation in the terminal."""

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from mini_vllm.cli.common import console, load_llm, option, read_stdin, sampling_params
from mini_vllm.cli.exits import legible
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError, PromptTooLongError, RequestFailedError
from mini_vllm.observe.files import check_text

if TYPE_CHECKING:
    from mini_vllm import LLM
    from mini_vllm.params import SamplingParams


def chat(
    config: EngineConfig,
    sampling: dict[str, Any],
    message: str | None = option(None, "Ask this once and exit.", "--message", "-m"),
    system: str | None = option(None, "The system prompt."),
) -> None:
    """Talk with a model; answers appear as they are written.

    The whole conversation is sent again with every turn, and the prefix cache makes that cheap.
    """
    llm = load_llm(config)
    params = sampling_params(llm, **{"max_tokens": 512, **sampling})
    start = [{"role": "system", "content": system}] if system else []
    if message is not None:
        if answer(llm, [*start, {"role": "user", "content": message}], params).is_stopped:
            raise KeyboardInterrupt
        return
    notes = console(stderr=True)
    notes.print("Ctrl-C ends an answer, /new starts a new conversation, Ctrl-D ends.", style="dim")
    messages = start
    for line in read_lines():
        if line == "/new":
            messages = start
            continue
        asked = [*messages, {"role": "user", "content": line}]
        try:
            check_text("the line", line)
            text, figures, _ = answer(llm, asked, params)
        except (InvalidParameterError, PromptTooLongError, RequestFailedError) as error:
            hint = "; /new starts a new conversation" * isinstance(error, PromptTooLongError)
            notes.print(f"{legible(str(error))}{hint}", style="red", markup=False)
            continue
        notes.print(figures, style="dim")
        messages = [*asked, {"role": "assistant", "content": text}]


def read_lines() -> Iterator[str]:
    """The user's lines until the end of the input.

    Ctrl-C only drops the line that was being typed.
    """
    with suppress(ImportError):  # Windows has none
        import readline  # noqa: F401  (gives input() a history and an editor)
    while True:
        try:
            line = input("> ") if sys.stdin.isatty() else read_stdin(line=True)
        except EOFError:
            return
        except KeyboardInterrupt:
            typer.echo("  (Ctrl-D ends)")
            continue
        if line is None:
            return
        if line.strip():
            yield line.strip()


class Answer(NamedTuple):
    """figures: a line about what it cost; is_stopped: by Ctrl-C."""

    text: str
    figures: str
    is_stopped: bool


def answer(llm: "LLM", messages: list[dict[str, str]], params: "SamplingParams") -> Answer:
    """Write the answer as it comes; returns what there is of it when Ctrl-C is pressed, too."""
    began = time.perf_counter()
    prompt = llm.apply_chat_template(messages)
    text, num_tokens, num_cached, error, is_stopped = "", 0, 0, None, False
    try:
        for delta in llm.stream(prompt, params):
            choice, num_cached = delta.outputs[0], delta.num_cached_tokens
            typer.echo(choice.text, nl=False)
            text += choice.text
            num_tokens += len(choice.token_ids)
            error = choice.error
    except KeyboardInterrupt:
        is_stopped = True
        typer.echo(" [stopped]", nl=False)
    typer.echo()
    if error:
        raise error
    took = time.perf_counter() - began
    figures = (
        f"{len(prompt)} prompt tokens, {num_cached} of them cached; {num_tokens} new tokens "
        f"in {took:.2f} s"
    )
    return Answer(text, figures, is_stopped)
