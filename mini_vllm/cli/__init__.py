"""The command mini-vllm. One module per command; what they share is in common.py.

Nothing here imports torch until a command needs it: help is instant, and a light install has a command line too.
"""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from mini_vllm import __version__
from mini_vllm.cli import bench, calibrate, chat, demo, doctor, generate, simulate, trace
from mini_vllm.cli.common import command

app = typer.Typer(
    name="mini-vllm",
    help="A small, readable LLM inference engine. Start with: mini-vllm demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for function in (
    demo.demo,
    generate.generate,
    chat.chat,
    bench.bench,
    trace.trace,
    simulate.simulate,
    calibrate.calibrate,
    doctor.doctor,
):
    app.command()(command(function))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mini-vllm {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A small, readable LLM inference engine. Start with: mini-vllm demo"""


def main() -> None:
    """Entry point. Where a terminal lacks a character of the text, it gets a question mark instead of a crash."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()
