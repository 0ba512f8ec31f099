"""The process in which labkit.grade.isolated grades one file: it runs the tests, and tells its parent what came out.

Code that runs here can do whatever the process can, so four things stand in its way:

- The parent knows the tests before the file is read. Every line to it begins with a secret. The secret is a local
  variable of serve() and stands nowhere else, and the channel is no file descriptor that print() or sys.stdout know.
- forbid() refuses what no answer needs: to look at the frames of a caller, to search the memory, to call C, to start
  or end processes, to write outside one folder for scratch, to run text as code.
- changed(), after each test, finds what the file has put into the place of a function of labkit, of the tests, of the
  engine or of the standard library, and what it put back (labkit.grade.intact). The parts of a lab are put there by
  labkit alone. hide() lets no import find the tests, nor what grades them.
- What is not told did not pass.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from io import FileIO
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from labkit.grade.breaking import read_versions
from labkit.grade.intact import OURS, picture
from labkit.grade.messages import explain
from labkit.grade.runner import FAILED, HANG, PASSED, outcome_of, prepare, read_tests, run_test, seconds_for
from labkit.grade.watchdog import limits, watchdog
from labkit.labs.catalog import Lab, LabkitError, Slot
from labkit.labs.graft import Part, namespace
from labkit.labs.source import is_borrowed
from labkit.labs.taken import find_borrowed
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
HIDDEN = ("labkit.grade", "labkit.labs", "labkit.compare", "labkit.prove")
GRAPHS = ("tb_frame", "gi_frame", "cr_frame", "ag_frame")  # attributes that lead to frames
LOOK = "look at the code that runs it"
PROCESSES, TEXT = "start processes", "run text as code"
SETS = ("object.__setattr__", "object.__delattr__")
BY_FILE = {  # audit events (docs.python.org/3/library/audit_events.html) that a learner's file may not cause
    **dict.fromkeys(("sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.settrace"), LOOK),
    **dict.fromkeys(("sys.setprofile", "sys.monitoring.register_callback", "object.__getattr__"), LOOK),
    **dict.fromkeys(SETS, "change what is not its own"),
    **dict.fromkeys(("exec", "compile", "marshal.loads", "code.__new__"), TEXT),
    **dict.fromkeys(("subprocess", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.spawn"), PROCESSES),
    **dict.fromkeys(("os.system", "os.startfile"), PROCESSES),
    **dict.fromkeys(("os.kill", "os.killpg", "signal"), "send signals"),
    **{"ctypes": "call C", "socket": "use the network", "resource": "move its limits"},
}
SEARCHES = ("gc.get_objects", "gc.get_referrers", "gc.get_referents")  # nothing here needs them
RUNS_TEXT = ("exec", "compile", "marshal.loads")
# modules that make functions or read a signature, so they run a text
MAKES_FUNCTIONS = {"ast", "collections", "dataclasses", "importlib", "inspect", "zipimport"}
# modules that ask for a frame, to name their caller
NAMES_ITS_CALLER = {"collections", "typing", "enum", "dataclasses", "warnings", "logging"}
# files of labkit that look: where an error was raised, and for which of several parts
LOOKS = ("grade/messages.py", "grade/watchdog.py", "grade/breaking.py", "labs/classes.py", "labs/graft.py")
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
    hide(lab)
    tell("tests", json.dumps([[test.name, test.concept] for test in tests]))
    limit()
    with watchdog():  # its thread begins before the picture is taken
        pass
    line = orders.readline()
    if not line:  # who made this process has gone
        leave(0)
    order = json.loads(line)
    hung, most = order["hung"], order["limits"]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for typed, text in order["files"].items():
        (lab.root / typed).write_bytes(text.encode())
    scratch, changes = Path(tempfile.gettempdir()), "mine.py changes {}, which is no part of this lab."
    with effort(order["share"]), limits(*most):
        changed = picture([lab.folder], with_engine=not lab.is_break_it)
        forbid(scratch, [lab.root / name for name in OURS] + list(lab.folder.glob("test_*")))
        tell("begin", -1)
        try:
            part, refused = Part(lab, lab.mine), ""
        except LabkitError as error:
            refused = str(error)
        except BaseException as error:
            refused = f"mine.py: {type(error).__name__} while it is read"
        if place := changed():
            refused = changes.format(place)
        if refused:
            tell("refused", escaped(refused))
            leave(0)
        for number in order["tests"]:
            tell("begin", number)
            try:
                result = run_test(lab, [part], tests[number], seconds_for(lab, hung))
                outcome, message, took, said = result.outcome, result.message, result.seconds, result.account
            except BaseException as error:
                outcome, message, took = outcome_of(error), explain(error, tests[number].concept, lab, part), 0.0
                said = ""
            if place := changed():
                outcome, message = FAILED, changes.format(place)
            elif outcome == PASSED and (slot := find_borrowed(part.module, lab)):
                outcome, message = FAILED, str(is_borrowed(part.file.name, slot.qualname, lab))
            hung |= outcome == HANG
            if outcome == PASSED:
                tell("passed", f"{took:.3f}\t{escaped(said)}")
            else:
                tell("red", f"{outcome}\t{took:.3f}\t{escaped(said)}\t{escaped(message)}")
    tell("end", "")
    leave(0)


def hide(lab: Lab) -> None:
    """Let no import find the tests of a lab, nor what grades it: a file that asks for that gets another copy."""
    import labkit

    for name, module in list(sys.modules.items()):
        parent, _, last = name.rpartition(".")
        is_test = lab.folder in Path(getattr(module, "__file__", None) or "").parents
        if is_test or (name.startswith(HIDDEN) and name not in lab.modules):
            del sys.modules[name]
            if parent == "labkit":
                delattr(labkit, last)


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
    packages = [path for path in sys.path if "site-packages" in path]
    others = (*map(str, trusted), *packages)
    engine = [module.__file__ for name, module in sys.modules.items() if name.startswith("mini_vllm.")]
    # What a file hands out may call something in the middle of a test, or of what compares: these do not look.
    lookers = (*packages, *(str(Path(__file__).parents[1] / name) for name in LOOKS))
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

    def by_file(frame: FrameType | None, allowed: tuple[str, ...]) -> bool:
        """Whether the nearest code that is not the standard library's is the learner's, or of unknown origin."""
        while frame is not None and is_standard(frame.f_code.co_filename):
            frame = frame.f_back
        return frame is None or not frame.f_code.co_filename.startswith(allowed)

    def why_not_set(holder: Any, name: str, caller: str) -> str | None:
        """What is wrong with setting one of the few attributes that no dictionary holds."""
        code = getattr(holder, "__code__", None)
        is_ours = code is not None and code.co_filename.startswith(others[: len(trusted)])
        if is_ours or isinstance(holder, ModuleType) or (name == "__bases__" and not is_standard(caller)):
            return f"change {name} of {getattr(holder, '__name__', holder)}"
        return None

    def why_not(event: str, arguments: tuple[Any, ...]) -> str | None:
        if event == "sys._getframe" and arguments[0].f_code in own:
            return None
        if event == "open":
            path, _, flags = arguments
            if flags & WRITES and is_outside(path):
                return "write outside its own folder"
            return LOOK if place_of(path).startswith("/proc") else None
        if event in CHANGES_FILES:
            return "change files outside its own folder" if any(map(is_outside, arguments[:2])) else None
        if event in SEARCHES:
            return LOOK
        if event == "exec" and getattr(arguments[0], "co_filename", "") in engine:
            return "load a module of the engine again"
        what = BY_FILE.get(event) or BY_FILE.get(event.partition(".")[0])
        if what is None or (event == "object.__getattr__" and arguments[1] not in GRAPHS):
            return None
        caller: Any = get_frame()
        caller = caller.f_back.f_back
        if event in SETS:
            return why_not_set(arguments[0], arguments[1], caller.f_code.co_filename)
        module = caller.f_globals.get("__name__", "").partition(".")[0]
        if event in RUNS_TEXT and module in MAKES_FUNCTIONS and is_standard(caller.f_code.co_filename):
            return None
        if event == "sys._getframe" and module in NAMES_ITS_CALLER:
            return None
        return what if by_file(caller, lookers if what == LOOK else others) else None

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if what := why_not(event, arguments):
            raise PermissionError(f"a lab's file may not {what} ({event})")

    own = (why_not.__code__,)
    sys.addaudithook(hook)
