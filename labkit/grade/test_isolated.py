"""`lab grade` on hostile files: the JSON is whole, the status is right, nothing on the disk is changed.

Each is handed in for lab 02.3, beside a right answer to lab 02.4. It answers wrongly, except where it is said to be
right, and would like to be called done. By day most are graded by the call that `lab grade` makes, in this process.
"""

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from labkit.grade import isolated
from labkit.grade.runner import FAILED, HANG, NOT_RUN, PASSED, TODO, read_tests
from labkit.grade.watchdog import limits
from labkit.labs.catalog import ROOT, find_lab
from labkit.labs.implementations import other_ways

HOSTILE, OTHER = find_lab("02.3"), find_lab("02.4")
NIGHTLY = bool(os.environ.get("NIGHTLY"))
MOST_SECONDS = 600.0  # a backstop: the grader itself ends what does not end, in seconds
WRONG = "return [], 0"
RIGHT = """
hits = []
if self.enable_prefix_caching:
    for name in self._block_hashes(request)[: (request.num_tokens - 1) // self.block_size]:
        if (block := self.block_pool.get_cached_block(name)) is None:
            break
        hits.append(block)
return hits, len(hits) * self.block_size
"""
# tools/long_tests.py runs this file beside more of them, and writes its lock meanwhile if it is asked to
WRITTEN_NOW = {"long_tests.json"} if "--write" in sys.argv else set()
NOT_THE_PROJECT = {  # what other processes may write meanwhile: the book may be built beside these tests
    ".git",
    ".venv",
    "node_modules",
    ".lab",
    "__pycache__",
    ".pytest_cache",
    ".hypothesis",
    ".mypy_cache",
    ".ruff_cache",
    ".import_linter_cache",
    "dist",
    "site",
    "mutants",
}


class Case(NamedTuple):
    """top: what stands above the class; call: what stands in a method; says: what some message has in it."""

    top: str = ""
    call: str = ""
    says: str = ""
    answer: str = WRONG
    below: str = ""
    is_right: bool = False
    is_apart_by_day: bool = False

    @property
    def text(self) -> str:
        body = textwrap.indent(f"{self.call}\n{self.answer}", " " * 8)
        return (
            "import os, sys, time\nfrom mini_vllm.kv_cache import KVCacheManager as ReferenceKVCacheManager\n"
            f"{self.top}\n\nclass KVCacheManager(ReferenceKVCacheManager):\n"
            f"    def get_computed_blocks(self, request):\n{body}\n"
            "    def _block_hashes(self, request):\n"
            "        names, size = request.block_hashes, self.block_size\n"
            "        for i in range(len(names), request.num_tokens // size):\n"
            "            token_ids = tuple(request.all_token_ids[i * size : (i + 1) * size])\n"
            "            parent, salt = (names[-1], None) if names else (None, request.cache_salt)\n"
            "            names.append(self._hash_block(parent, token_ids, salt))\n"
            "        return names\n"
            f"{self.below}\n"
        )


PATCH = "import labkit.{module} as m\nm.{name} = {value}"
LEADS = "leads to what grades the file"
WORDS = "import sys; m = sys.modules['labkit.testing.words']\n"
EQUAL = "class Equal(int):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\n    __hash__ = int.__hash__"
FRAMES = """
frame = sys._getframe()
while frame:
    for name, value in list(frame.f_locals.items()):
        if name in ("tell", "outcome", "write"):
            os.write(1, str(value).encode())
            value("passed", 0)
    frame = frame.f_back
"""
FRAMES_OF_AN_ERROR = """
try:
    1 / 0
except ZeroDivisionError as error:
    frame = error.__traceback__.tb_frame
    while frame:
        if "tell" in frame.f_locals:
            frame.f_locals["tell"]("end", "")
            os._exit(0)
        frame = frame.f_back
"""
WRITES_LINES = """
for fd in range(64):
    try:
        os.write(fd, b"\\nx passed 0.0\\n" * 50)
    except OSError:
        pass
"""
DIES = "import faulthandler; faulthandler._sigsegv()"
CASES = {
    # it ends the process
    "sys_exit_at_import": Case("sys.exit(0)", says="ends the program"),
    "sys_exit_in_a_call": Case(call="sys.exit(0)", says="ends the program"),
    "os_exit_at_import": Case("os._exit(0)", says=r"not read to its end: it ended .* \(exit status 0\)"),
    "os_exit_in_a_call": Case(
        call="os._exit(0)", says=r"it ended the grader's process \(exit status 0\)", is_apart_by_day=True
    ),
    "atexit": Case("import atexit\natexit.register(os._exit, 0)"),
    "keyboard_interrupt": Case(call="raise KeyboardInterrupt"),
    "keyboard_interrupt_at_import": Case("raise KeyboardInterrupt", says="KeyboardInterrupt"),
    "text_that_steers": Case(call="raise ValueError('\\x1b[2J \\ud800')", says=r"ValueError: \\x1b\[2J \\ud800"),
    "generator_exit": Case(call="raise GeneratorExit"),
    "segfault": Case(call=DIES, says=r"signal 11 \(SIGSEGV: a wild address\)"),
    "segfault_at_import": Case(DIES, says="signal 11"),
    "abort": Case(call="os.abort()", says="signal 6"),
    "os_exit_of_a_right_answer": Case(call="os._exit(0)", answer=RIGHT, says="exit status 0"),
    "os_exit_after_the_last_test": Case("import threading\nthreading.Timer(0.5, os._exit, [0]).start()"),
    # it does not come back
    "loop_at_import": Case("while True: pass", says="does not come to its end"),
    "loop_at_import_that_swallows": Case(
        "while True:\n    try:\n        x = 1\n    except BaseException:\n        pass"
    ),
    "sleep_at_import": Case("time.sleep(1000)", says="did not come back within"),
    "sleep_in_a_call": Case(call="time.sleep(1000)", says="did not come back within"),
    "regex": Case("import re", call="re.match('(a+)+$', 'a' * 60 + 'b')", says="did not come back within"),
    "a_lock": Case("import threading\nlock = threading.Lock()", call="lock.acquire(); lock.acquire()"),
    "input": Case(call="input()", says="EOFError"),
    "a_thread_that_stays": Case("import threading\nthreading.Thread(target=time.sleep, args=(1000,)).start()"),
    "a_thread_that_works": Case(
        "import threading\ndef work():\n    while True: pass\nthreading.Thread(target=work).start()"
    ),
    "recursion": Case(call="return self.get_computed_blocks(request)", says="RecursionError"),
    "deep_recursion": Case(
        "sys.setrecursionlimit(10**9)\nclass A:\n    def __repr__(self): return repr(self)", "repr(A())"
    ),
    "no_debugger": Case("sys.gettrace = lambda: 'a debugger'\nsys.settrace(lambda *a: None)"),
    # it takes all
    "huge_list": Case(call="x = [0] * 10**11", says="MemoryError"),
    "growing_list": Case(call="x = []\nwhile True: x.append(bytes(10**8))", says="MemoryError"),
    "huge_number": Case(call="x = 1 << (1 << 36)", says="MemoryError"),
    "fork_bomb": Case("while True: os.fork()", says="may not start processes"),
    "fork_in_a_call": Case(call="if os.fork() == 0: time.sleep(1000)", says="may not start processes"),
    "processes": Case("import subprocess", "subprocess.run(['sleep', '1000'])", says="may not start processes"),
    "large_file": Case(call="open(os.environ['TMPDIR'] + '/x', 'wb').truncate(10**10)", says="File too large"),
    "prints_without_end": Case(call="print('x' * 10**6)"),
    # it changes the grader
    "patched_outcome": Case(
        PATCH.format(module="grade.runner", name="outcome_of", value="lambda e: 'passed'"), says=LEADS
    ),
    "patched_run_test": Case(PATCH.format(module="grade.runner", name="run_test", value="lambda *a: None"), says=LEADS),
    "patched_explain": Case(PATCH.format(module="grade.messages", name="explain", value="lambda *a: ''"), says=LEADS),
    "patched_check": Case(
        f"{WORDS}m.Check.__call__ = lambda *a, **k: None",
        says="changes labkit",
    ),
    "patched_check_in_a_call": Case(call=f"{WORDS}m.Check.fail = lambda *a: None", says="changes labkit"),
    "patched_code": Case(
        f"{WORDS}m.Check.true.__code__ = (lambda self, what, holds: None).__code__\n"
        "m.Check.__call__.__code__ = (lambda self, what, got, equals: None).__code__",
        says="may not change __code__ of true",
    ),
    "patched_share": Case("sys.modules['labkit.testing.search'].seeds = lambda num: []", says="changes labkit"),
    "patched_tests": Case(  # no import finds them
        "for name, m in list(sys.modules.items()):\n    for k in list(vars(m)):\n"
        "        if k.startswith('test_'): setattr(m, k, lambda *a, **k: None)",
        says="expected",
    ),
    "patched_json": Case('import json\njson.dumps = lambda *a: \'["passed", "", 0.0]\'', says="changes json.dumps"),
    "patched_contextlib": Case(
        "import contextlib\ncontextlib._GeneratorContextManager.__exit__ = lambda *a: True", says="changes contextlib"
    ),
    "patched_builtin": Case("import builtins\nbuiltins.repr = lambda x: ''", says="changes builtins.repr"),
    "patched_reference": Case(
        below="setattr(ReferenceKVCacheManager, 'get_computed_blocks', KVCacheManager.get_computed_blocks)",
        says="changes mini_vllm.kv_cache",
    ),
    "patched_engine_in_a_call": Case(
        "import mini_vllm.request as r",
        "r.Request.num_tokens = property(lambda self: 1)",
        says="changes mini_vllm.request",
    ),
    "frames": Case(call=FRAMES, says="may not look at the code that runs it"),
    "frames_of_an_error": Case(call=FRAMES_OF_AN_ERROR, says="may not look"),
    "frames_by_inspect": Case("import inspect", "inspect.stack()", says="may not look"),
    "memory": Case("import gc", "gc.get_objects()", says="may not look"),
    "memory_by_proc": Case(call="open('/proc/self/mem', 'rb')", says="may not look"),
    "ctypes": Case("import ctypes", "ctypes.string_at(0)", says="may not call C"),
    "writes_into_the_channel": Case(WRITES_LINES),
    "closes_the_channel": Case(call="os.closerange(0, 100)"),
    "equal_to_everything": Case(EQUAL, answer="return [], Equal(0)"),
    # it reaches for other processes and files
    "network": Case("import socket", "socket.create_connection(('127.0.0.1', 9))", says="may not use the network"),
    "signals_to_the_parent": Case(call="os.kill(os.getppid(), 9)", says="may not send signals"),
    "signals_by_a_thread": Case("import threading\nthreading.Thread(target=os.kill, args=(os.getppid(), 9)).start()"),
    "signals_to_the_group": Case("import signal", "os.killpg(0, signal.SIGKILL)", says="may not send signals"),
    "own_signals": Case("import signal", "signal.alarm(1); time.sleep(5)", says="signal 14"),
    "edited_tests": Case(
        "import glob\nfor f in glob.glob(os.path.dirname(__file__) + '/test_*.py'):\n    open(f, 'w').write('')",
        says="may not write outside",
    ),
    "conftest": Case(f"open({str(ROOT / 'conftest.py')!r}, 'a').write('#')", says="may not write outside"),
    "another_lab": Case(f"open({str(OTHER.mine)!r}, 'w').write('')", says="may not write outside"),
    "deleted_files": Case(f"import shutil\nshutil.rmtree({str(ROOT / 'labkit')!r})", says="may not change files"),
    "renamed_files": Case(f"os.rename({str(ROOT / 'README.md')!r}, 'x')", says="may not change files"),
    "borrowed_by_super": Case(answer="return super().get_computed_blocks(request)", says="the reference's"),
    "borrowed_by_an_alias": Case(
        "Other = ReferenceKVCacheManager",
        answer="return Other.get_computed_blocks(self, request)",
        says="is the reference's answer",
    ),
    "borrowed_by_exec": Case(
        "import inspect\nexec(inspect.getsource(ReferenceKVCacheManager))", says="may not run text as code"
    ),
    # it is no answer at all
    "not_python": Case("def (:", says="Python cannot read the file"),
    "a_null": Case("x = '\0'", says="mine.py:3: a NUL byte"),
    "deep_brackets": Case("x = " + "(" * 5000 + ")" * 5000, says="Python cannot read the file"),
    "many_signs": Case("x = " + "-" * 100_000 + "1", says="cannot read the file"),
    # it is right, and odd
    "prints_before_and_after": Case(
        "print('{')\nsys.stdout.write('}')\nos.write(1, b'[')", "print('x')", answer=RIGHT, is_right=True
    ),
    "closes_its_output": Case("sys.stdout.close()\nsys.stderr.close()", answer=RIGHT, is_right=True),
    "writes_a_file_of_its_own": Case(
        "import tempfile\nwith tempfile.TemporaryFile() as f: f.write(b'x')", answer=RIGHT, is_right=True
    ),
    "common_tools": Case(
        "import collections, dataclasses, enum, functools, heapq, itertools, logging, math, re, typing, warnings\n"
        "P = collections.namedtuple('P', 'x y')\nclass C(enum.Enum):\n    A = 1\nD = enum.Enum('D', 'X Y')\n"
        "@dataclasses.dataclass(slots=True)\nclass R:\n    x: int = 0\nclass N(typing.NamedTuple):\n    x: int\n"
        "T = typing.TypeVar('T')\nlogging.info('x')\nwarnings.warn('x')\nimport decimal, statistics, uuid",
        "logging.info('x'); R(1); P(1, 2); N(1)",
        answer=RIGHT,
        is_right=True,
    ),
}
AT_NIGHT = {  # each has a neighbour above that is tried by day
    *("os_exit_of_a_right_answer", "atexit", "keyboard_interrupt", "keyboard_interrupt_at_import", "generator_exit"),
    *("segfault_at_import", "abort", "text_that_steers", "loop_at_import_that_swallows", "sleep_at_import"),
    *("a_thread_that_works", "deep_recursion", "no_debugger", "prints_without_end", "patched_json"),
    *("patched_contextlib", "patched_builtin", "patched_engine_in_a_call", "frames_of_an_error"),
    *("signals_by_a_thread", "own_signals", "deleted_files", "borrowed_by_an_alias", "many_signs", "a_null"),
    *("closes_its_output", "writes_a_file_of_its_own", "prints_before_and_after", "os_exit_at_import"),
    *(
        "a_thread_that_stays",
        "os_exit_after_the_last_test",
        "large_file",
        "writes_into_the_channel",
        "borrowed_by_exec",
    ),
}
FILES = {  # what may stand where mine.py is expected: how it is made, and what is said
    "folder": (lambda file: file.mkdir(), "is a folder, not a file"),
    "latin_1": (lambda file: file.write_bytes("x = 'é'".encode("latin-1")), "A file of Python is UTF-8 text"),
    "zeros_without_end": (lambda file: file.symlink_to("/dev/zero"), "a pipe or a device"),
    "pipe": (os.mkfifo if hasattr(os, "mkfifo") else None, "a pipe or a device"),
    "link_to_nothing": (lambda file: file.symlink_to("nowhere"), "No such file"),
    "link_to_itself": (lambda file: file.symlink_to("mine.py"), "symbolic links"),
    "large": (lambda file: file.write_text("#" * (2 << 20)), "is longer than"),
    "empty": (lambda file: file.write_text(""), "has no KVCacheManager"),
    "nul": (lambda file: file.write_bytes(b"x = 1\n\0\n"), "mine.py:2: a NUL byte"),
}
pytestmark = pytest.mark.skipif(os.name != "posix", reason="the files are written for POSIX")


def project() -> dict[str, tuple[int, int]]:
    """Size and time of every file of the checkout."""
    found = {}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in NOT_THE_PROJECT]
        for name in set(files) - WRITTEN_NOW:
            state = os.lstat(os.path.join(folder, name))
            found[os.path.join(folder, name)] = (state.st_size, state.st_mtime_ns)
    return found


def hand_in(submission: Path) -> Path:
    """A submission with a right answer to the other lab. Returns the place of the hostile file."""
    files = [submission / lab.typed for lab in (HOSTILE, OTHER)]
    for file in files:
        file.parent.mkdir(parents=True)
    files[1].write_text(next(iter(other_ways(OTHER).values())).code)
    return files[0]


def graded(submission: Path) -> dict[str, Any]:
    """What `lab grade --json` says of the hostile file, as a teacher calls it. The other lab's grade is what it was."""
    before = project()
    command = [sys.executable, "-m", "labkit.cli", "grade", HOSTILE.id, OTHER.id, "--json", "--from", str(submission)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(command, capture_output=True, text=True, cwd=submission, env=environment, timeout=MOST_SECONDS)
    report: dict[str, Any] = json.loads(run.stdout)
    assert project() == before
    assert report[OTHER.id]["passed"] == report[OTHER.id]["total"] > 20, "another lab's grade"
    own: dict[str, Any] = report[HOSTILE.id]
    assert own["total"] == len(read_tests(HOSTILE))
    assert set(own["tests"].values()) <= {PASSED, FAILED, TODO, HANG, NOT_RUN}
    assert own["passed"] == list(own["tests"].values()).count(PASSED)
    assert run.returncode == (own["passed"] < own["total"])
    return own


def graded_here(file: Path) -> dict[str, Any]:
    """The same of the hostile file alone, without the program around it."""
    before = project()
    results = isolated.grade(HOSTILE, file)
    assert project() == before
    red = {f"{i}": result.message for i, result in enumerate(results) if result.outcome != PASSED}
    assert len(results) == len(read_tests(HOSTILE))
    return {"total": len(results), "passed": len(results) - len(red), "messages": red}


def mark_of(name: str) -> list[pytest.MarkDecorator]:
    """Of the files that are alike, or end with the same message, the first is tried by day and the rest at night."""
    same = [other for other, case in CASES.items() if case.says and case.says == CASES[name].says]
    is_for_the_night = name in same[1:] or name in AT_NIGHT
    return [pytest.mark.nightly if is_for_the_night else pytest.mark.slow]


@pytest.mark.parametrize("name", [pytest.param(name, marks=mark_of(name)) for name in CASES])
def test_a_hostile_file_is_graded(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    (file := hand_in(tmp_path)).write_text(case.text)
    report = graded(tmp_path) if case.is_apart_by_day or NIGHTLY else graded_here(file)
    said = "\n".join(report["messages"].values())
    assert (report["passed"] == report["total"]) == case.is_right, said
    assert re.search(case.says, said), said[:2000]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow if name == "folder" else pytest.mark.nightly) for name in FILES],
)
def test_what_is_no_file_is_graded(name: str, tmp_path: Path) -> None:
    make, says = FILES[name]
    make(hand_in(tmp_path))
    report = graded(tmp_path)
    assert set(report["tests"].values()) == {NOT_RUN}
    assert says in next(iter(report["messages"].values()))


@pytest.mark.slow
def test_a_submission_that_brings_a_grader_is_graded_by_this_one(tmp_path: Path) -> None:
    """Tests, conftest.py, labkit, the engine and sitecustomize.py of a submission change nothing."""
    file = hand_in(tmp_path)
    file.write_text(Case().text)
    (file.parent / "test_prefix_hits.py").write_text("")
    for name in ("labkit", "mini_vllm", "rich"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit(0)")
    for name in ("conftest.py", "sitecustomize.py", "usercustomize.py", "json.py", "random.py"):
        (tmp_path / name).write_text("raise SystemExit(0)")
    submission = tmp_path.rename(tmp_path.with_name("submission"))
    empty = tmp_path
    empty.mkdir()
    before = project()
    program = str(Path(sys.executable).with_name("lab"))
    command = [program, "grade", HOSTILE.id, OTHER.id, "--json", "--from", str(submission)]
    run = subprocess.run(
        command, capture_output=True, text=True, cwd=submission, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    report = json.loads(run.stdout)
    assert 0 < report[HOSTILE.id]["passed"] < report[HOSTILE.id]["total"] == len(read_tests(HOSTILE))
    assert report[OTHER.id]["passed"] == report[OTHER.id]["total"]
    assert project() == before


@pytest.mark.slow
def test_a_test_that_kills_the_process_costs_itself_alone(tmp_path: Path) -> None:
    """The other tests run in another process, with what they would have said."""
    file = tmp_path / "mine.py"
    file.write_text(Case(call="if request.num_tokens == 9: os._exit(3)", answer=RIGHT).text)
    results = isolated.grade(HOSTILE, file)
    red = [result for result in results if result.outcome != PASSED]
    assert 0 < len(red) < len(results)
    assert "it ended the grader's process (exit status 3)" in red[0].message


@pytest.mark.slow
def test_other_limits_hold_in_the_process_too(tmp_path: Path) -> None:
    """It ends what hangs by itself, and says where that was, before it is ended from outside."""
    file = tmp_path / "mine.py"
    file.write_text(Case(call="while request.num_tokens == 9: pass", answer=RIGHT).text)
    with limits(0.5, 0.2):
        results = isolated.grade(HOSTILE, file)
    hung = [result.message for result in results if result.outcome == HANG]
    assert hung
    assert all("it was at mine.py:" in message for message in hung)
