"""The command mini-vllm. One module per command; what they share is in common.py, and how they end in exits.py.

Nothing here imports torch until a command needs it: help is instant, and a light install has a command line too.
"""

from typing import TYPE_CHECKING, Any

from mini_vllm.cli.exits import run_program

if TYPE_CHECKING:
    from mini_vllm.cli.commands import app

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module 'mini_vllm.cli' has no attribute {name!r}")
    from mini_vllm.cli.commands import app

    return app


def main() -> None:
    """Entry point. Ctrl-C ends it well from here on, while the commands are imported too."""
    run_program(lambda: __getattr__("app")())
