"""The command mini-vllm. One module per command; what they share is in common.py, and how they end
in exits.py.

Nothing here imports torch until a command needs it: help is instant, and a light install has a
command line too.
"""

from mini_vllm.cli.exits import run_program


def main() -> None:
    """Entry point. Ctrl-C ends it well from here on, while the commands are imported too."""

    def work() -> None:
        from mini_vllm.cli.commands import app

        app()

    run_program(work)
