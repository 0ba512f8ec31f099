"""Grades a file in a process of its own, on a copy of the lab: the file cannot end, hang or silence the grader.

The copy, in a temporary folder, has labkit, the engine's modules and the lab's folder as they are in this checkout. The
process (labkit.grade.confined) finds its modules in it and nowhere else, and no environment variable of Python and no
sitecustomize reaches it. It tells each test before it begins; this module sees to the time, writes down what came, and
counts as red what did not come, with the reason. One process that dies costs one test; the other tests run in the next
process.
"""

import json
import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from labkit.grade.confined import describe
from labkit.grade.deadline import Deadline, ThreadOfLinux
from labkit.grade.intact import OURS
from labkit.grade.messages import explain
from labkit.grade.runner import FAILED, HANG, NOT_RUN, PASSED, Result, seconds_for
from labkit.grade.watchdog import limit
from labkit.labs import source
from labkit.labs.catalog import ROOT, TRACES, Lab, LabkitError, labs
from labkit.testing.words import Concept, LabFailure
from mini_vllm.observe.files import printable

START_SECONDS = 120.0  # to import torch
GRACE_SECONDS = 1.0  # beyond the time in which the watchdog ends what it can end
MOST_DEATHS = 2  # processes that a file may end; then the tests that are left have not run
MOST_BYTES = 1 << 20  # of a line of the answer
BEGIN = "import sys; sys.path[:] = sys.argv[1:]; from labkit.grade.confined import serve; serve()"


class Grader:
    """A process that has imported all that a lab needs, and waits for the file."""

    def __init__(self, lab: Lab, *, silent: bool) -> None:
        """silent: what the file prints is not shown. Errors: LabkitError if the lab itself cannot be read."""
        self.lab = lab
        self._folder = tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True)
        root = Path(self._folder.name, "copy")
        scratch = Path(self._folder.name, "scratch")
        scratch.mkdir()
        folder = copy_lab(lab, root)
        paths = [str(root), *(path for path in sys.path if path and not is_checkout(Path(path)))]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-X", "utf8", "-c", BEGIN, *paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if silent else None,
            cwd=scratch,
            env=environment(scratch),
            start_new_session=True,
        )
        self._thread = ThreadOfLinux(f"/proc/{self._process.pid}")  # its main thread, which runs the tests
        self._secret = secrets.token_hex(16)
        self._lines: queue.Queue[tuple[str, str] | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()
        self._send({"secret": self._secret, "lab": describe(lab, folder)})

    def tests(self) -> list[tuple[str, Concept]]:
        """The tests of the lab, as the process found them before it saw the file."""
        kind, about = self._next(START_SECONDS)
        if kind != "tests":
            raise LabkitError(f"lab {self.lab.id} cannot be graded: its tests could not be read ({self.close()}).")
        return [(name, Concept(*concept)) for name, concept in json.loads(about)]

    def run(self, order: dict[str, Any]) -> Iterator[tuple[str, str]]:
        """What the process says of the tests that it is to run. "late" or "dead" is the end of it."""
        self._send(order)
        kind = ""
        while kind not in ("refused", "end", "late", "dead"):
            kind, about = self._next(seconds_for(self.lab, order["hung"]))
            yield kind, about

    def close(self) -> str:
        """End the process and all that it has started. Returns how it had ended before, "" if it had not."""
        status = self._process.poll()
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        if self._process.stdin:
            with suppress(OSError):
                self._process.stdin.close()
        self._folder.cleanup()
        return "" if status is None else how_it_ended(status)

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:  # it is dead, which is noticed where its answer is awaited
            return

    def _next(self, seconds: float) -> tuple[str, str]:
        """The next line: its kind, and what it is about. "late": none came in time; "dead": none will."""
        deadline = Deadline(seconds + GRACE_SECONDS, self._thread.seconds, self._thread)
        while True:
            try:
                line = self._lines.get(timeout=max(deadline.left, 0.0))
                break
            except queue.Empty:
                if deadline.left <= 0:
                    return ("late" if self._process.poll() is None else "dead"), ""
        if line is None:  # the channel is closed, as a rule because the process ends
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GRACE_SECONDS)
        return line or ("dead", "")

    def _listen(self) -> None:
        """The thread that reads: lines without the secret do not count."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in iter(lambda: lines.readline(MOST_BYTES), b""):
                secret, _, rest = line.decode(errors="replace").strip().partition(" ")
                if secret == self._secret:
                    kind, _, about = rest.partition(" ")
                    self._lines.put((kind, about))
        self._lines.put(None)


def grade(
    lab: Lab,
    file: Path,
    *,
    share: float = 1.0,
    silent: bool = True,
    only: Collection[str] | None = None,
    grader: Grader | None = None,
) -> list[Result]:
    """Every test of a lab on a file, in the order of the lab. Whatever the file is and does, each has a result.

    share: of the random cases (labkit.testing.search.effort). only: the tests of these names. grader: one that waits
    already, and is used up.
    """
    results: dict[int, Result] = {}
    order: dict[str, Any] = {"share": share, "hung": False, "limits": [limit(), limit(hung=True)]}
    reason = ""
    try:
        order["files"] = {lab.typed: source.read(file)} | files_of_company(lab, file)
    except LabkitError as error:
        reason = str(error)
    for turn in range(MOST_DEATHS):
        with closing(grader if grader and turn == 0 else Grader(lab, silent=silent)) as process:
            tests = process.tests()
            asked = [number for number, (name, _) in enumerate(tests) if only is None or name in only]
            order["tests"] = [number for number in asked if number not in results]
            for number, outcome, message, seconds, said in () if reason else verdicts(process, order, lab, tests):
                if number < 0:
                    reason = message
                else:
                    results[number] = Result(lab.id, *tests[number], outcome, message, seconds, said)
        if reason or len(results) == len(asked):
            break
        order["hung"] = any(result.outcome == HANG for result in results.values())
    reason = reason or f"mine.py ended the grader {MOST_DEATHS} times; this test was not run."
    missing = {number: Result(lab.id, *tests[number], NOT_RUN, reason, 0.0) for number in asked}
    return [results.get(number, missing[number]) for number in asked]


def verdicts(
    process: Grader, order: dict[str, Any], lab: Lab, tests: Sequence[tuple[str, Concept]]
) -> Iterator[tuple[int, str, str, float, str]]:
    """(number, outcome, message, seconds, account) of each test that came to an end; -1: the file itself did not."""
    current, is_told = -1, False
    for kind, about in process.run(order):
        if kind == "begin":
            current, is_told = int(about), False
        elif kind == "passed" and not is_told:
            is_told = True
            seconds, _, said = about.partition("\t")
            yield current, PASSED, "", float(seconds), written(said)
        elif kind == "red" and not is_told:
            is_told = True
            outcome, seconds, said, message = about.split("\t")
            yield current, outcome, written(message), float(seconds), written(said)
        elif kind == "refused":
            yield -1, NOT_RUN, written(about), 0.0, ""
        elif kind in ("late", "dead") and not is_told:
            slow = f"it did not come back within {seconds_for(lab, order['hung']):g} s"
            how = process.close() or (slow if kind == "late" else "it closed the grader's channel")
            if current < 0:
                yield -1, NOT_RUN, f"mine.py is not read to its end: {how}.", 0.0, ""
            else:
                failure = explain(LabFailure("the call", "it comes back", how), tests[current][1], lab, None)
                yield current, HANG if kind == "late" else FAILED, failure, 0.0, ""


def written(message: str) -> str:
    """A message that labkit.grade.confined has put into one line; what could steer a terminal is escaped."""
    return "\n".join(map(printable, message.encode().decode("unicode_escape").expandtabs().split("\n")))


def how_it_ended(status: int) -> str:
    """A process's exit status in words."""
    if status >= 0:
        return f"it ended the grader's process (exit status {status})"
    names = {
        "SIGSEGV": "a wild address",
        "SIGBUS": "a wild address",
        "SIGKILL": "memory, perhaps",
        "SIGABRT": "aborted",
    }
    with suppress(ValueError):
        name = signal.Signals(-status).name
        return f"it was killed by signal {-status} ({name}{': ' + names[name] if name in names else ''})"
    return f"it was killed by signal {-status}"


def files_of_company(lab: Lab, file: Path) -> dict[str, str]:
    """The learner's files of other labs, for a lab that grades them together; one that cannot be read is left out."""
    found = {}
    root = file.absolute().parents[len(Path(lab.typed).parts) - 1]
    for other in labs() if lab.together and file.name == lab.mine.name else ():
        with suppress(LabkitError):
            if other.id != lab.id:
                found[other.typed] = source.read(root / other.typed)
    return found


# --- the copy -----------------------------------------------------------------------------------------------------


def copy_lab(lab: Lab, root: Path) -> Path:
    """Copy what the grading of a lab needs. Returns the folder of the lab in it."""
    ignored = shutil.ignore_patterns("test_*", "*.safetensors", "tokenizer*", "*.js", "*.tmp")
    for name in OURS:
        shutil.copytree(ROOT / name, root / name, ignore=ignored, copy_function=copy_file)
    for folder in ROOT.glob("phase-*/labs"):  # a break-it lab is graded on parts of the other labs
        shutil.copytree(folder, root / folder.relative_to(ROOT), ignore=shutil.ignore_patterns("mine*", "__pycache__"))
    shutil.copytree(TRACES, root / TRACES.relative_to(ROOT))
    folder = root / lab.folder.relative_to(lab.root)
    if lab.root != ROOT:
        shutil.copytree(lab.folder, folder, ignore=shutil.ignore_patterns("mine*", "__pycache__"))
    return folder


def copy_file(source: str, target: str) -> None:
    """With its time, which says that a cached module is of this source; without what else shutil.copy2 looks for."""
    shutil.copyfile(source, target)
    state = os.stat(source)
    os.utime(target, ns=(state.st_atime_ns, state.st_mtime_ns))


def is_checkout(path: Path) -> bool:
    """Whether modules that lie there may be this checkout's, or those of the folder in which the user stands."""
    return path.resolve() in (ROOT, Path.cwd())


def environment(scratch: Path) -> dict[str, str]:
    """The environment of the process; what is written goes into scratch."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    written = dict.fromkeys(("TMPDIR", "TEMP", "TMP", "TRITON_CACHE_DIR"), str(scratch))
    return {"OMP_NUM_THREADS": "1", **kept, **written}
