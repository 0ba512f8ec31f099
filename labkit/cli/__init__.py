"""The command lab: what is done, what is next, and everything that is done to a lab.

lab                       what is done, and what is next
lab watch [ID]            grade a lab each time its file is saved; keys: h hint, d diff, n next lab, q quit
lab test [ID or phase]    grade once; the same as pytest phase-NN-*/labs
lab hint ID [LEVEL]       one more hint: a question, the invariant, the shape
lab evidence ID [CASE]    what an engine with a bug left behind, in a lab of debugging
lab diff ID               what the contract names, yours beside the reference's: after a pass or with --give-up
                          --all: all of both files; --side-by-side: in two columns
                          --html FILE: also a page on which the decisions of both step together
lab run PHASE             the engine answers on your code; 05: with and without drafts; 04: masks and a stream;
                          01: also the time of your kernel in C; 03.8: on the scheduler of that lab
lab reset ID              a new file from the stub; yours is kept as a backup
lab adopt ID              move what you wrote into stub.py to mine.py, and restore the stub
lab update [ID]           merge what a newer release changed in a stub into your file
lab grade [PHASE]         for teachers: --json, --from CHECKOUT, exit status 0 if everything is green
lab doctor                what this machine can grade
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from labkit.labs.catalog import LabkitError
from mini_vllm.cli.exits import exit_status, legible, run_program


class Parser(argparse.ArgumentParser):
    """Quotes what it could not read without its control characters, and does not hide that nobody gets its help."""

    def print_help(self, file: Any = None) -> None:
        (sys.stdout if file is None else file).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        super().error(legible(message))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    assert __doc__
    top = Parser(
        "lab",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="lab [command] [options]",
    )
    verbs = top.add_subparsers(dest="command")
    verbs.add_parser("status")
    verbs.add_parser("watch").add_argument("lab", nargs="?")
    test = verbs.add_parser("test")
    test.add_argument("what", nargs="*", help="lab ids (03.2) or phases (03); all by default")
    test.add_argument("--all", action="store_true", dest="every_message", help="explain every red test")
    hint = verbs.add_parser("hint")
    hint.add_argument("lab")
    hint.add_argument("level", nargs="?", type=int, choices=(1, 2, 3))
    evidence = verbs.add_parser("evidence")
    evidence.add_argument("lab")
    evidence.add_argument("case", nargs="?", help="all by default")
    diff = verbs.add_parser("diff")
    diff.add_argument("lab")
    diff.add_argument(
        "--give-up", action="store_true", help="show the reference before you have passed; it is recorded"
    )
    diff.add_argument("--all", action="store_true", dest="whole", help="what the contract does not name, too")
    diff.add_argument("--side-by-side", action="store_true", help="two columns, as wide as the terminal")
    diff.add_argument("--html", metavar="FILE", help="also write a page on which the decisions of both step together")
    run = verbs.add_parser("run")
    run.add_argument("phase", help="03, or a lab whose parts are of another engine than V1's: 03.8")
    run.add_argument("prompt", nargs="?", help="one question of yours in place of the six of mini-vllm demo")
    run.add_argument("--mine", choices=("phase", "all"), default="phase", help="all: every part that you have passed")
    for name in ("reset", "adopt"):
        verbs.add_parser(name).add_argument("lab")
    verbs.add_parser("update").add_argument("lab", nargs="?")
    grade = verbs.add_parser("grade")
    grade.add_argument("what", nargs="*", help="lab ids or phases; all by default")
    grade.add_argument("--json", action="store_true", dest="as_json", help="one JSON object for a program to read")
    grade.add_argument("--from", dest="folder", help="a submission's checkout: only its mine.py files are read")
    verbs.add_parser("doctor")
    return top


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command. Exit status: 0 well, 1 something is red, 2 a mistake in the call."""

    def work() -> int:
        from labkit.cli import commands

        options = vars(parser().parse_args(arguments))
        return int(getattr(commands, options.pop("command") or "status")(**options))

    if arguments is None:
        run_program(work, refusal=LabkitError, prefix="")
    sys.exit(exit_status(work, refusal=LabkitError, prefix=""))
