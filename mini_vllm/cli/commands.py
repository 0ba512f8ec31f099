"""The commands of mini-vllm, as one typer application."""

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

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


class Command(TyperCommand):
    """A command whose help has its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            kind = f"{parameter.param_type_name.capitalize()}s"
            group = getattr(parameter, "rich_help_panel", None) or kind
            if (record := parameter.get_help_record(ctx)) is not None:
                groups.setdefault(group, []).append(record)
        for group in sorted(groups, key="Options".__eq__):  # what is in no other comes last
            with formatter.section(group):
                formatter.write_dl(groups[group])


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
    app.command(name.replace("_", " "), cls=Command)(command(getattr(module, name)))


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
