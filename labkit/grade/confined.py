"""The process in which labkit.grade.isolated grades one file: it runs the tests, and tells its parent what came out.

Code that runs here can do whatever the process can, so four things stand in its way:

- The parent knows the tests before the file is read. Every line to it begins with a secret. The secret is a local
  variable of serve() and stands nowhere else, and the channel is no file descriptor that print() or sys.stdout know.
- forbid() refuses what no answer needs: to look at the frames of a caller, to search the memory, to call C, to start
  or end processes, to write outside one folder for scratch, to run text as code.
- changed(), after each test, finds what the file has put into the place of a function of labkit, of the tests, of the
  engine or of the standard library. The parts of a lab are put there by labkit alone.
- What is not told did not pass.
"""

import builtins
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib import import_module
from io import FileIO
from operator import is_
from pathlib import Path
from types import FrameType, FunctionType, ModuleType
from typing import Any

from labkit.grade.breaking import read_versions
from labkit.grade.messages import explain
from labkit.grade.runner import FAILED, HANG, PASSED, outcome_of, prepare, read_tests, run_test, seconds_for
from labkit.grade.watchdog import limits, watchdog
from labkit.labs.catalog import Lab, LabkitError, Slot
from labkit.labs.graft import Part, namespace
from labkit.testing.search import effort

try:
    import resource
except ImportError:  # Windows
    HAS_LIMITS = False
else:
    HAS_LIMITS = True

MEMORY = 2 << 30  # bytes of data; torch and Triton on a CPU take 0.25 GiB of it
LARGEST_FILE = 64 << 20
MOST_TEXT = 20_000  # characters of a message
OURS = ("labkit", "mini_vllm")
GRAPHS = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")  # attributes that lead to frames
LOOK = "look at the code that runs it"
PROCESSES, TEXT = "start processes", "run text as code"
BY_FILE = {  # audit events (docs.python.org/3/library/audit_events.html) that a learner's file may not cause
    **dict.fromkeys(("sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace"), LOOK),
    **dict.fromkeys(("sys.setprofile", "gc.get_objects", "gc.get_referrers", "gc.get_referents"), LOOK),
    **dict.fromkeys(("object.__getattr__",), LOOK),
    **dict.fromkeys(("exec", "compile", "marshal.loads", "code.__new__"), TEXT),
    **dict.fromkeys(("subprocess", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn"), PROCESSES),
    **dict.fromkeys(("os.system", "os.startfile"), PROCESSES),
    **dict.fromkeys(("os.kill", "os.killpg", "signal"), "send signals"),
    **{"ctypes": "call C", "socket": "use the network", "resource": "move its limits"},
}
RUNS_TEXT = ("exec", "compile", "marshal.loads")  # the standard library may, also for a file: dataclasses do
# modules that ask for a frame, to name their caller
NAMES_ITS_CALLER = {"collections", "typing", "enum", "dataclasses", "warnings", "logging"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES_FILES = {
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "os.utime", "os.setxattr", "os.removexattr", "os.mkfifo", "shutil.rmtree", "shutil.move",
}  # fmt: skip


def serve() -> None:
    """Read what is to be done from standard input, do it, and say so. The process ends here."""
    channel, write, leave = os.dup(1), os.write, os._exit
    os.dup2(2, 1)  # what the file prints is no answer
    orders = FileIO(0, closefd=False)  # it has no buffer that keeps the secret
    job = json.loads(orders.readline())
    secret, lab = job["secret"], lab_of(job["lab"])
    sys.argv[:] = ["lab"]

    def tell(kind: str, about: object) -> None:
        write(channel, f"\n{secret} {kind} {about}\n".encode())

    def escaped(message: str) -> str:
        return message[:MOST_TEXT].encode("unicode_escape").decode()

    prepare(lab)
    for package in lab.packages:
        import_module(package)
    namespace(lab.modules)
    tests = read_tests(lab)
    if lab.is_break_it:
        read_versions(lab)
    tell("tests", json.dumps([[test.name, test.concept] for test in tests]))
    limit()
    with watchdog():  # its thread begins before the picture is taken
        pass
    changed = picture([lab.folder])
    order = json.loads(orders.readline())
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for typed, text in order["files"].items():
        (lab.root / typed).write_bytes(text.encode())
    forbid(Path(tempfile.gettempdir()), [lab.root / name for name in OURS] + list(lab.folder.glob("test_*")))
    hung = order["hung"]
    tell("begin", -1)
    try:
        with limits(*order["limits"]):
            part = Part(lab, lab.mine)
    except BaseException as error:
        text = str(error) if isinstance(error, LabkitError) else f"mine.py: {type(error).__name__} while it is read"
        tell("refused", escaped(text))
        leave(0)
    if place := changed():
        tell("refused", escaped(f"mine.py changes {place}, which is no part of this lab."))
        leave(0)
    for number in order["tests"]:
        tell("begin", number)
        try:
            with effort(order["share"]), limits(*order["limits"]):
                result = run_test(lab, [part], tests[number], seconds_for(lab, hung))
            outcome, message, took, said = result.outcome, result.message, result.seconds, result.account
        except BaseException as error:
            outcome, message, took = outcome_of(error), explain(error, tests[number].concept, lab, part), 0.0
            said = ""
        if (order["share"] == 1 or number == order["tests"][-1]) and (place := changed()):
            outcome, message = FAILED, f"mine.py changes {place}, which is no part of this lab."
        hung |= outcome == HANG
        if outcome == PASSED:
            tell("passed", f"{took:.3f}\t{escaped(said)}")
        else:
            tell("red", f"{outcome}\t{took:.3f}\t{escaped(said)}\t{escaped(message)}")
    tell("end", "")
    leave(0)


def lab_of(described: dict[str, Any]) -> Lab:
    """A lab that describe() has described; its folder is that of the copy."""
    slots = {name: tuple(Slot(**slot) for slot in described[name]) for name in ("slots", "answer")}
    texts = {name: tuple(described[name]) for name in ("concepts", "vllm", "needs", "modules", "cases", "together")}
    return Lab(**{**described, **slots, **texts, "folder": Path(described["folder"])})


def describe(lab: Lab, folder: Path) -> dict[str, Any]:
    """A lab as JSON can have it; folder: where its copy lies."""
    return {**asdict(lab), "folder": str(folder)}


def limit() -> None:
    """Bounds for memory and files, where the system has them. With a GPU there is none: CUDA takes what it likes."""
    if not HAS_LIMITS:
        return
    torch = sys.modules.get("torch")
    wanted = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, LARGEST_FILE)]
    if torch is None or not torch.cuda.is_available():
        wanted.append((resource.RLIMIT_DATA, MEMORY))
    for what, most in wanted:
        resource.setrlimit(what, (most, most))


# --- what no file may do ------------------------------------------------------------------------------------------


def forbid(scratch: Path, trusted: Sequence[Path]) -> None:
    """From now on refuse what no answer needs. scratch: where files may be written; trusted: code that may do more."""
    sys.dont_write_bytecode = True
    library = str(Path(os.__file__).parent) + os.sep
    others = (*(str(path) for path in trusted), *(path for path in sys.path if "site-packages" in path))
    get_frame, real_path, text_of = sys._getframe, os.path.realpath, os.fsdecode
    within = str(scratch.resolve()) + os.sep

    def is_standard(name: str) -> bool:
        return name.startswith("<frozen") or (name.startswith(library) and "site-packages" not in name)

    def place_of(path: Any) -> str:
        """Where a path leads; "" for the number of a file that is open."""
        return real_path(text_of(path)) if isinstance(path, str | bytes | os.PathLike) else ""

    def is_outside(path: Any) -> bool:
        place = place_of(path)
        return not ((place + os.sep).startswith(within) or place in ("", os.devnull))

    def by_file(frame: FrameType | None) -> bool:
        """Whether the nearest code that is not the standard library's is the learner's, or of unknown origin."""
        while frame is not None and is_standard(frame.f_code.co_filename):
            frame = frame.f_back
        return frame is None or not frame.f_code.co_filename.startswith(others)

    def why_not(event: str, arguments: tuple[Any, ...]) -> str | None:
        if event == "open":
            path, _, flags = arguments
            if flags & WRITES and is_outside(path):
                return "write outside its own folder"
            return LOOK if place_of(path).startswith("/proc") else None
        if event in CHANGES_FILES:
            return "change files outside its own folder" if any(map(is_outside, arguments[:2])) else None
        what = BY_FILE.get(event) or BY_FILE.get(event.partition(".")[0])
        if what is None or (event == "object.__getattr__" and arguments[1] not in GRAPHS):
            return None
        if event == "sys._getframe" and arguments[0].f_code in own:
            return None
        caller: Any = get_frame()
        caller = caller.f_back.f_back
        if event in RUNS_TEXT and is_standard(caller.f_code.co_filename):
            return None
        if event == "sys._getframe" and caller.f_globals.get("__name__", "").partition(".")[0] in NAMES_ITS_CALLER:
            return None
        return what if by_file(caller) else None

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if what := why_not(event, arguments):
            raise PermissionError(f"a lab's file may not {what} ({event})")

    own = (why_not.__code__,)
    sys.addaudithook(hook)


# --- what no file may change --------------------------------------------------------------------------------------


def picture(folders: Sequence[Path]) -> Callable[[], str]:
    """Remember what stands where. Returns a function that names the first thing that is another now, "" if none is.

    That function calls nothing by a name that could have been put in its place.
    """
    spaces, codes = [], []
    for title, holder, is_ours in holders(folders):
        space = holder.__dict__
        spaces.append((title, space, dict(space), list(space.values()), is_ours, is_ours or isinstance(holder, type)))
        for name, value in space.items():
            function = getattr(value, "__func__", value)
            if is_ours and isinstance(function, FunctionType):
                codes.append((f"{title}.{name}", function, function.__code__, function.__defaults__))
    is_same, every, each, can_call, kind_of = is_, all, map, callable, type
    module_type, builtin = ModuleType, frozenset(vars(builtins))

    def changed() -> str:
        for title, space, known, values, is_ours, is_whole in spaces:
            if every(each(is_same, values, space.values())) and space.__len__() == values.__len__():
                continue
            for name, value in known.items():
                if (name not in space or space[name] is not value) and (is_whole or can_call(value)):
                    return f"{title}.{name}"
            for name in space:
                if name not in known and (name in builtin or (is_ours and kind_of(space[name]) is not module_type)):
                    return f"{title}.{name}"
        for title, function, code, defaults in codes:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return title
        return ""

    return changed


def holders(folders: Sequence[Path]) -> Iterator[tuple[str, Any, bool]]:
    """Modules and the classes in them: (title, holder, whether it is labkit's, the tests' or the engine's)."""
    for name, module in list(sys.modules.items()):
        top = name.partition(".")[0]
        is_ours = top in OURS or any(
            folder in Path(getattr(module, "__file__", None) or "").parents for folder in folders
        )
        if is_ours or top in sys.stdlib_module_names or name in ("torch", "torch._tensor", "numpy"):
            yield name, module, is_ours
            for value in list(vars(module).values()):
                if isinstance(value, type) and value.__module__ == name:
                    yield f"{name}.{value.__qualname__}", value, is_ours
