"""A C file as a library that Python can call: built at first use, and kept in the user's cache
folder.

A library's name has the hash of all that decides its code: source, headers, flags, processor (it is
built for this one); then that of the compiler's version; then that of its content, so that a file
that was cut off or changed is built again rather than loaded. A library is written under a
temporary name and renamed, so two processes may build at once. Nothing but the standard library is
used here.
"""

import ctypes
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from mini_vllm.errors import shown

logger = logging.getLogger("mini_vllm")

FLAGS = ("-O3", "-march=native", "-fPIC", "-ffreestanding", "--param=avoid-fma-max-bits=0")
# The last flag is for AMD's Zen. Without it GCC multiplies and adds in one instruction in some
# loops and in two in the rest, and the bits of a row depend on how many rows stand beside it.
# Clang knows no such flag, and does not need it.
# No library is named to the linker: what is missing is found in the process, and so OpenMP is the
# one that torch has brought. Two of them would have two sets of threads, each waiting for work on
# the cores that the other one needs.
LINK = ("-shared", "-nostdlib")
COMPILERS = ("cc", "gcc", "clang")
# on the wall: some on an idle machine, two minutes with sanitizers on a busy one
SECONDS_TO_BUILD = 600
NONE_FOUND = "there is no C compiler ({}); install gcc or clang, as by: apt install gcc"


# How a kernel is called: launch.get()(kernel), with its arguments as a Structure if it is one in C.
# What records a forward puts its own function here for as long as it does.
launch = ContextVar("launch", default=lambda kernel, *call: kernel(*map(ctypes.byref, call)))


class CannotBuildError(Exception):
    """Why there is no library, in one line that says what to do."""


@cache
def find_library(source: Path, *defines: str) -> ctypes.CDLL | str:
    """The library, or why there is none.

    Looked for once a process: a compiler does not come while an engine runs.
    """
    try:
        return load_library(source, *defines)
    except CannotBuildError as error:
        return str(error)


def load_library(source: Path, *defines: str) -> ctypes.CDLL:
    """The functions of a C file, which may include the headers of this folder; built if no such
    build is in the cache.

    defines: macros for the compiler, each NAME=VALUE. With OpenMP if the compiler and this process
    have it, else without. Environment: CC, XDG_CACHE_HOME. Errors: CannotBuildError where there is
    no compiler, and where it does not take the file.
    """
    compiler = find_compiler()
    code = [file.read_bytes() for file in (source, *sorted(Path(__file__).parent.glob("*.h")))]
    ways = {}  # flags by the beginning of a library's name
    macros = tuple(f"-D{define}" for define in defines)
    for flags in ((*FLAGS, "-fopenmp", *macros), (*FLAGS, *macros)):
        name = f"{source.stem}-{short_hash(*code, repr((flags, LINK)).encode(), processor())}"
        ways[f"{name}-{short_hash(version_of(compiler))}" if compiler else name] = flags
    for name in ways:
        for folder in filter(is_safe, cache_folders()):
            for path in sorted(folder.glob(f"{name}-*.so")):
                if library := load_if_whole(path):
                    return library
    reason = NONE_FOUND.format(
        shown(os.environ["CC"]) if os.environ.get("CC") else ", ".join(COMPILERS)
    )
    for name, flags in ways.items():
        try:
            if compiler:
                return build(source, compiler, flags, name)
        except (CannotBuildError, OSError) as error:  # such as no place for temporary files
            reason = str(error)
    raise CannotBuildError(reason)


def build(source: Path, compiler: list[str], flags: tuple[str, ...], name: str) -> ctypes.CDLL:
    """Compile, put the library into the first cache folder that takes it, and load it from there.

    Errors: CannotBuildError with the first line of what the compiler says, or with what every
    folder's failure was.
    """
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        compiled, linked = Path(scratch, f"{name}.o"), Path(scratch, f"{name}.so")
        run([*compiler, *flags, "-c", "-o", str(compiled), str(source)])
        run([*compiler, *LINK, "-o", str(linked), str(compiled)])
        content = linked.read_bytes()
    failures = []
    for folder in cache_folders():
        path = folder / f"{name}-{short_hash(content)}.so"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not is_safe(folder):
                raise PermissionError(
                    f"{folder} belongs to another user, or others may write there"
                )
            with tempfile.NamedTemporaryFile(dir=folder, suffix=".tmp", delete=False) as file:
                file.write(content)
            os.replace(file.name, path)
            library = ctypes.CDLL(str(path))
        # read-only, full, or mounted so that nothing there can be executed
        except OSError as error:
            failures.append(str(error))
            continue
        logger.info("built %s with %s in %.1f s", path, compiler[0], time.perf_counter() - start)
        return library
    raise CannotBuildError(f"{source.stem} cannot be kept or loaded: {'; '.join(failures)}")


def run(command: list[str]) -> bytes:
    """What the compiler prints. Errors: CannotBuildError with its first line about an error."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=SECONDS_TO_BUILD,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip() or str(
            error
        )
        lines = said.splitlines()
        # warnings may stand before it
        first = next((line for line in lines if "error:" in line), lines[0])
        raise CannotBuildError(
            f"{command[0]} cannot build {command[-1]}: {shown(first)}"
        ) from error


def find_compiler() -> list[str] | None:
    """The command of CC, else the first of COMPILERS; None where it is not found."""
    named = shlex.split(os.environ.get("CC", ""))
    for command in [named] if named else [[name] for name in COMPILERS]:
        if shutil.which(command[0]):
            return command
    return None


def version_of(compiler: list[str]) -> bytes:
    """What the compiler says of itself; nothing if it does not."""
    with suppress(CannotBuildError):
        return run([*compiler, "--version"])
    return b""


def processor() -> bytes:
    """What -march=native looks at: two machines that share a home need not have the same
    instructions.
    """
    try:
        first = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0]
    except OSError:
        first = ""
    wanted = ("model name", "flags", "Features", "CPU implementer", "CPU part")
    lines = [line for line in first.splitlines() if line.startswith(wanted)]
    return "\n".join([platform.machine(), platform.processor(), *lines]).encode()


def cache_folders() -> Iterator[Path]:
    """The user's cache, then a folder of the user's own among the temporary ones, for a home that
    is read-only.
    """
    with suppress(RuntimeError):  # no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "mini_vllm")
    yield Path(
        tempfile.gettempdir(), f"mini_vllm-{os.getuid()}" if hasattr(os, "getuid") else "mini_vllm"
    )


def is_safe(folder: Path) -> bool:
    """Whether the folder is this user's and nobody else may write there: what lies in it is loaded
    as code.
    """
    try:
        status = folder.stat()
    except OSError:
        return False
    return not hasattr(os, "getuid") or (
        status.st_uid == os.getuid() and not status.st_mode & 0o022
    )


def load_if_whole(path: Path) -> ctypes.CDLL | None:
    """A library from the cache, if its content is what its name says."""
    with suppress(OSError):  # gone, or in need of something that this process does not have
        if path.stem.endswith(short_hash(path.read_bytes())):
            return ctypes.CDLL(str(path))
    return None


def short_hash(*parts: bytes) -> str:
    """16 hexadecimal digits."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
