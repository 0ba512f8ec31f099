"""mini-vllm chat: a conversation in the terminal."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mini_vllm.cli.common import console, load_llm, read_stdin, sampling_params
from mini_vllm.cli.exits import legible
from mini_vllm.config import EngineConfig
from mini_vllm.errors import InvalidParameterError, PromptTooLongError, RequestFailedError
from mini_vllm.observe.files import check_text

if TYPE_CHECKING:
    from mini_vllm.llm import LLM
    from mini_vllm.params import SamplingParams


def chat(
    config: EngineConfig,
    sampling: dict[str, Any],
    message: Annotated[str | None, typer.Option("--message", "-m", help="Ask this once and exit.")] = None,
    system: Annotated[str | None, typer.Option(help="The system prompt.")] = None,
) -> None:
    """Talk with a model; answers appear as they are written.

    The whole conversation is sent again with every turn, and the prefix cache makes that cheap.
    """
    llm = load_llm(config)
    params = sampling_params(llm, **{"max_tokens": 512, **sampling})
    start = [{"role": "system", "content": system}] if system else []
    if message is not None:
        with interruptions() as presses:
            answer(llm, [*start, {"role": "user", "content": message}], params, presses)
        if presses:
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
            with interruptions() as presses:
                text, figures = answer(llm, asked, params, presses)
        except (InvalidParameterError, PromptTooLongError, RequestFailedError) as error:
            hint = "; /new starts a new conversation" if isinstance(error, PromptTooLongError) else ""
            notes.print(f"{legible(str(error))}{hint}", style="red", markup=False)
            continue
        notes.print(figures, style="dim")
        messages = [*asked, {"role": "assistant", "content": text}]


def read_lines() -> Iterator[str]:
    """The user's lines until the end of the input. Ctrl-C only drops the line that was being typed."""
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


def answer(llm: "LLM", messages: list[dict[str, str]], params: "SamplingParams", presses: list[int]) -> tuple[str, str]:
    """Write the answer as it comes; returns what there is of it when Ctrl-C is pressed too, and a line of figures."""
    began = time.perf_counter()
    prompt = llm.apply_chat_template(messages)
    text, num_tokens, num_cached = "", 0, 0
    for delta in llm.stream(prompt, params):
        choice, num_cached = delta.outputs[0], delta.num_cached_tokens
        typer.echo(choice.text, nl=False)
        text += choice.text
        num_tokens += len(choice.token_ids)
        if presses:
            typer.echo(" [stopped]", nl=False)
            break
    typer.echo()
    if choice.error is not None:
        raise choice.error
    took = time.perf_counter() - began
    return text, f"{len(prompt)} prompt tokens, {num_cached} of them cached; {num_tokens} new tokens in {took:.2f} s"


@contextmanager
def interruptions() -> Iterator[list[int]]:
    """Collect Ctrl-C instead of raising it in the middle of a step. A second one is raised: it is meant."""
    presses: list[int] = []

    def press(number: int, frame: FrameType | None) -> None:
        presses.append(number)
        if len(presses) > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)
