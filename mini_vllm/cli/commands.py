"""The commands of mini-vllm, as one typer application."""

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from mini_vllm import __version__
from mini_vllm.cli import (
    bench,
    bench_serve,
    calibrate,
    chat,
    demo,
    doctor,
    generate,
    serve,
    simulate,
    trace,
)
from mini_vllm.cli.common import command, option
from mini_vllm.cli.exits import exit_status


class Commands(TyperGroup):
    """The group of all commands: whatever happens in one of them ends in exit_status."""

    def main(self, args: Sequence[str] | None = None, *positional: Any, **options: Any) -> Any:
        given = sys.argv[1:] if args is None else args
        run = super().main
        options["standalone_mode"] = False
        sys.exit(exit_status(lambda: run(args, *positional, **options), debug="--debug" in given))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A command of two words, as `bench serve`, is found before that of its first word."""
        two = " ".join(args[:2])
        return super().resolve_command(ctx, [two, *args[2:]] if two in self.commands else args)


app = typer.Typer(
    cls=Commands,
    name="mini-vllm",
    help="A small, readable LLM inference engine. Start with: mini-vllm demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (demo, generate, chat, serve, bench, bench_serve, trace, simulate, calibrate, doctor):
    name = module.__name__.rpartition(".")[2]
    app.command(name.replace("_", " "))(command(getattr(module, name)))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mini-vllm {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: bool = option(
        False, "Show the version.", "--version", callback=_show_version, is_eager=True
    ),
) -> None:
    """A small, readable LLM inference engine. Start with: mini-vllm demo"""
