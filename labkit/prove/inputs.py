"""What a verdict depends on, found by running: the files of the project that a process read, and the folders it listed.

A verdict (a lab is proven, a file of tests is green) need not be found again while the hash of its inputs is the same.
The inputs are not listed by hand: an audit hook hears every file that is opened and every folder that is listed
(docs.python.org/3/library/audit_events.html), and sys.modules has what was imported before. What another process reads
is not heard, so a verdict that starts one depends on the packages without their tests, and on what its command names.
A compiler of C reads C alone, and a list of fonts nothing.
The labs that such a process grades are not among its inputs: `make nightly` finds all verdicts again.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from labkit.labs.catalog import ROOT

LISTS = ("os.listdir", "os.scandir")
STARTS = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system")  # a process of another program
READ_BY = {  # programs that read only such files of the project: platform asks uname, and matplotlib fc-list once
    **dict.fromkeys(("cc", "gcc", "clang"), (".c", ".h")),
    **dict.fromkeys(("uname", "fc-list"), ()),
}
LOCKS = {"proof/lock.json", "tools/long_tests.json"}  # they have the hashes, and decide nothing
HEARD = {"open", *LISTS, *STARTS}
OF_THE_MACHINE = ("torch", "triton", "numpy")  # packages whose numbers decide


class Recorder:
    """Hears what this process reads from now on; an audit hook cannot be taken out."""

    def __init__(self) -> None:
        self._heard: list[tuple[str, tuple[Any, ...]]] = []
        self._starters = starters()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in HEARD:  # nothing else: this runs inside every one of them, at any depth of the stack
            self._heard.append((event, arguments))

    def inputs(self) -> list[str]:
        """Files as paths from the checkout, and folders with a slash behind them; sorted."""
        heard, known = list(self._heard), project_files()
        found = {as_input(getattr(module, "__file__", None)) for module in list(sys.modules.values())}
        for event, arguments in heard:
            if event == "open":
                found.add(as_input(arguments[0]))
            elif event in LISTS:
                found.add(as_input(arguments[0]) + "/")
            else:
                named = [as_input(word) for words in arguments if isinstance(words, list | tuple) for word in words]
                found |= set(named)
                program = Path(os.fsdecode(arguments[0])).name
                if program in READ_BY:
                    found |= {name for name in known if name.endswith(READ_BY[program])}
                else:
                    found |= read_by_processes({f"{name.partition('/')[0]}/" for name in named if name})
        if starters() - self._starters:
            found |= read_by_processes(set())
        folders = {f"{parent.as_posix()}/" for name in known for parent in Path(name).parents} - {"./"}
        folders -= {name for name in folders if f"{name}__init__.py" in known}  # every import lists these
        return sorted(found & (known | folders))


def as_input(path: Any) -> str:
    """A path from the checkout, "" for what is no path or lies elsewhere; a cached module stands for its source."""
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if not isinstance(path, str | os.PathLike):
        return ""  # a descriptor
    name = os.path.normpath(os.path.join(ROOT, path))
    if not name.startswith(str(ROOT) + os.sep):
        return ""
    name = name[len(str(ROOT)) + 1 :].replace(os.sep, "/")
    try:
        return source_from_cache(name) if name.endswith(".pyc") else name
    except ValueError:
        return ""


def starters() -> set[str]:
    """Modules that multiprocessing imports when it starts a process, of which no event tells."""
    return {name for name in sys.modules if name.startswith("multiprocessing.popen_")}


def read_by_processes(rooms: set[str]) -> set[str]:
    """What a process of ours may read: these folders of the checkout and the packages, without their tests."""
    homes = tuple(rooms | {"labkit/", "mini_vllm/"})
    return {name for name in project_files() if name.startswith(homes) and not Path(name).name.startswith("test_")}


@cache
def project_files() -> frozenset[str]:
    """What git has of the project, or would take; without git, what lies there. Learners' files do not count."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        paths = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
        listed = [
            path.as_posix() for path in paths if not any(part.startswith((".", "__")) for part in path.parts[:-1])
        ]
    return frozenset(name for name in listed if name and not Path(name).name.startswith("mine.py")) - LOCKS


def digest(inputs: Iterable[str]) -> str:
    """A hash of what the inputs are now, and of the versions that decide about numbers."""
    found = hashlib.sha256(" ".join(versions()).encode())
    for name in sorted(inputs):
        found.update(f"\0{name}\0{content(name)}".encode())
    return found.hexdigest()[:16]


def forget_digests() -> None:
    """Files were written since: look at them again."""
    project_files.cache_clear()
    content.cache_clear()


@cache
def content(name: str) -> str:
    """A hash of a file, or the names in a folder; "" for what is no more."""
    if name.endswith("/"):
        inside = [file[len(name) :].partition("/") for file in project_files() if file.startswith(name)]
        return " ".join(sorted({child + slash for child, slash, _ in inside}))
    file = ROOT / name
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


@cache
def versions() -> Sequence[str]:
    """Of Python and of the packages that compute."""
    found = ["python " + ".".join(map(str, sys.version_info[:2]))]
    for package in OF_THE_MACHINE:
        try:
            found.append(f"{package} {version(package).partition('+')[0]}")
        except PackageNotFoundError:
            found.append(f"{package} -")
    return found
