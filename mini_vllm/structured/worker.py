"""The process that compiles grammars: python -m mini_vllm.structured.worker SECONDS BYTES, started by compiler.py.

Questions come on stdin, answers go to stdout: 8 bytes of length, then JSON. The first question is the vocabulary. The
system's own timers kill the process when a grammar takes so many seconds of the processor, also inside a library, and
also when no process is left that would. It may take so many bytes beyond what it has after its imports. What a library
writes to stderr is a warning that the grammar is not what was asked for.
"""

import json
import os
import re
import signal
import struct
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from mini_vllm.structured.backends import Backend, Vocabulary, make_backend

LENGTH = struct.Struct("<Q")
PLACE = re.compile(r"^\[[\d:]+\] \S+:\d+: (?:Warning: )?")  # in xgrammar
WALL_TIMES = 20  # by the clock on the wall a grammar may take so many times as long


class Warnings:
    """What the process, and C++ in it, writes to stderr."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115  # as long as the process
        os.dup2(self._file.fileno(), 2)

    def take(self) -> str:
        """What was written since the last call."""
        self._file.seek(0)
        text = self._file.read().decode(errors="replace")
        self._file.seek(0)
        self._file.truncate()
        return text


class Answers:
    """Knows the vocabulary, and makes back ends as they are asked for."""

    def __init__(self, vocabulary: Vocabulary, warnings: Warnings) -> None:
        self._vocabulary = vocabulary
        self._warnings = warnings
        self._backends: dict[str, Backend] = {}

    def load(self, backend: str) -> None:
        """Import the library, which no timer should see."""
        if backend not in self._backends:
            self._backends[backend] = make_backend(backend, self._vocabulary)

    def to(self, question: dict[str, str]) -> dict[str, str]:
        """{"compiled": text}, or {"error": text}; with "spent" the process should not be asked again."""
        self._warnings.take()
        try:
            compiled = self._backends[question["backend"]].compile(question["kind"], question["text"])
        except Exception as error:  # whatever a library raises for what a stranger sends
            if isinstance(error, MemoryError) or "bad_alloc" in str(error):
                return {"error": "it needs too much memory", "spent": "this process"}
            return {"error": short(str(error))}
        warning = self._warnings.take()
        return {"error": short(warning)} if "arning" in warning else {"compiled": compiled}


def short(text: str) -> str:
    """What a message says, without where in the library it comes from."""
    lines = [PLACE.sub("", line.strip()) for line in text.splitlines() if line.strip(" ^|")]
    return " ".join(dict.fromkeys(lines))[:300] or "it cannot be compiled"


def limit_memory(num_bytes: int) -> None:
    """What the process has now, and so much more; where the system has such a limit."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        num_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = num_pages * resource.getpagesize() + num_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def set_timers(seconds: float) -> None:
    """End the process in so many seconds of the processor, or WALL_TIMES as many by the clock; 0 is never."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, WALL_TIMES * seconds)


def main() -> None:
    """Answer questions until stdin ends."""
    seconds, max_bytes = float(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process in front
    with suppress(AttributeError, OSError):
        os.nice(5)  # requests that have their grammars go first
    questions, out = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    answers: Answers | None = None
    is_limited: set[str] = set()
    while len(header := questions.read(LENGTH.size)) == LENGTH.size:
        question: dict[str, Any] = json.loads(questions.read(LENGTH.unpack(header)[0]))
        if answers is None:
            token_bytes = [bytes.fromhex(each) for each in question["tokens"]]
            answers = Answers(Vocabulary(token_bytes, question["ends"]), Warnings())
            continue
        answers.load(question["backend"])
        if question["backend"] not in is_limited:
            limit_memory(max_bytes)
            is_limited.add(question["backend"])
        set_timers(seconds)  # then the system ends the process
        found = answers.to(question)
        set_timers(0)
        body = json.dumps(found).encode()
        out.write(LENGTH.pack(len(body)) + body)
        out.flush()


if __name__ == "__main__":
    main()
