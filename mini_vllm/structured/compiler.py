"""GrammarCompiler: grammars by the text that they were compiled from, and the process that compiles
them.

A grammar is compiled in a process of its own (worker.py), since a library cannot be stopped within
a long call: the process has so many seconds of the processor for each grammar and so much memory,
and is killed when it takes more. A thread here asks it, one grammar after the other, and reads the
answer; the thread that steps only looks at futures. What was compiled is kept in bounded bytes,
those that were used last; so are refusals, or a bad one could be sent again and again. Source:
StructuredOutputManager in vllm/v1/structured_output/__init__.py, which compiles in threads.
"""

import json
import re
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache
from queue import SimpleQueue
from subprocess import Popen

from mini_vllm.errors import GrammarError, MiniVllmError, how_to_install
from mini_vllm.params import StructuredOutputs
from mini_vllm.structured.backends import MakeVocabulary, is_installed, make_backend
from mini_vllm.structured.child_process import ChildProcess, tell
from mini_vllm.structured.scheduler import NewGrammar
from mini_vllm.structured.schema import (
    LARGE,
    check,
    guidance_would_miss,
    measure,
    xgrammar_would_ignore,
)

MAX_SECONDS = 5.0
MAX_MEMORY_BYTES = 2 << 30  # beyond what the process has when it begins
MAX_CACHE_BYTES = 256 << 20
EBNF_RULE = re.compile(r"(?m)^\s*[\w-]+\s*::=")  # else it is Lark

Key = tuple[str, str]
Outcome = NewGrammar | GrammarError


class GrammarCompiler:
    """A GrammarSource (scheduler.py). backend: of EngineConfig.structured_outputs_backend.

    make_vocabulary is called once, when a grammar is first asked for; the process starts then, too.
    Any thread may call it. It ends with close(), with this object, or with the process that made
    it.
    """

    idle_seconds = 0.01

    def __init__(
        self,
        make_vocabulary: MakeVocabulary,
        backend: str = "auto",
        *,
        max_seconds: float = MAX_SECONDS,
        max_memory_bytes: int = MAX_MEMORY_BYTES,
        max_cache_bytes: int = MAX_CACHE_BYTES,
    ) -> None:
        self._backend = backend
        self._compiled = BoundedCache(max_cache_bytes)
        self._jobs: SimpleQueue[tuple[StructuredOutputs, Future[NewGrammar]] | None] = SimpleQueue()
        self._process = CompilerProcess(make_vocabulary, max_seconds, max_memory_bytes)
        self._thread: threading.Thread | None = None

    def compile(self, wanted: StructuredOutputs) -> "Future[NewGrammar]":
        """The grammar, now if it was compiled before.

        Raises GrammarError for what is refused at sight.
        """
        future: Future[NewGrammar] = Future()
        if (known := self._compiled.get(wanted.key)) is not None:
            fulfil(future, known)
            return future
        check(wanted)
        # in no time, and where there is neither process nor thread
        if self.backends_for(wanted) == ["automaton"]:
            outcome, num_bytes = compile_with(self._process, wanted, ["automaton"])
            self._compiled.put(wanted.key, outcome, num_bytes)
            fulfil(future, outcome)
            return future
        if self._thread is None:
            self._thread = threading.Thread(
                target=work,
                args=(self._jobs, self._process, self._compiled, self.backends_for),
                daemon=True,
            )
            self._thread.start()
            weakref.finalize(self, self._jobs.put, None)
        self._jobs.put((wanted, future))
        return future

    def backends_for(self, wanted: StructuredOutputs) -> list[str]:
        """The back ends to try, in this order. Raises GrammarError if there is none."""
        kind, text = wanted.key
        if self._backend == "automaton" and kind != "choice":
            raise GrammarError(
                f"structured: {kind} needs xgrammar or guidance; automaton takes choice alone"
            )
        every = ["xgrammar", "guidance"] + ["automaton"] * (kind == "choice")
        is_auto = self._backend == "auto"
        names = every if is_auto else [self._backend]
        why_not = {
            "xgrammar": xgrammar_would_ignore(wanted),
            "guidance": guidance_would_miss(wanted),
        }
        unfit = [why for name in names if (why := why_not.get(name))]
        names = [name for name in names if not why_not.get(name)]
        if is_auto and kind == "grammar":
            names = ["xgrammar" if EBNF_RULE.search(text) else "guidance"]
        # whichever is quick
        elif is_auto and (kind == "regex" or measure(wanted) > LARGE):
            names.reverse()
        if not names:
            raise GrammarError(f"structured: json has {' and '.join(unfit)}")
        found = [name for name in names if is_installed(name)]
        if not found:
            needed = f"{' or '.join(sorted(names, reverse=True))}, which is not installed"
            raise GrammarError(f"structured: {kind} needs {needed}. {how_to_install('structured')}")
        return found

    def close(self) -> None:
        """End the thread and the process."""
        self._jobs.put(None)
        self._process.close()


class BoundedCache:
    """What came of texts, in bounded bytes: the outcome that was used longest ago goes first.

    Any thread may call.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes, self.num_bytes = max_bytes, 0
        self._entries: OrderedDict[Key, tuple[Outcome, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Key) -> Outcome | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Key, outcome: Outcome, num_bytes: int) -> None:
        """Keep it. One that is larger than all the room is not kept."""
        num_bytes += len(key[1])
        with self._lock:
            self.num_bytes += num_bytes - self._entries.pop(key, (None, 0))[1]
            self._entries[key] = outcome, num_bytes
            while self.num_bytes > self.max_bytes:
                self.num_bytes -= self._entries.popitem(last=False)[1][1]


# --- the thread -----------------------------------------------------------------------------------


def work(
    jobs: "SimpleQueue[tuple[StructuredOutputs, Future[NewGrammar]] | None]",
    process: "CompilerProcess",
    compiled: BoundedCache,
    backends_for: Callable[[StructuredOutputs], Sequence[str]],
) -> None:
    """Compile what is asked for, one after the other, until there is None."""
    while (job := jobs.get()) is not None:
        wanted, future = job
        if not future.set_running_or_notify_cancel():  # its client has left
            continue
        outcome = compiled.get(wanted.key)
        if outcome is None:
            outcome, num_bytes = compile_with(process, wanted, backends_for(wanted))
            compiled.put(wanted.key, outcome, num_bytes)
        fulfil(future, outcome)
        del job, wanted, future, outcome


def compile_with(
    process: "CompilerProcess", wanted: StructuredOutputs, names: Sequence[str]
) -> tuple[Outcome, int]:
    """The grammar by the first of these back ends that can compile it, and its bytes; or why none
    can.
    """
    kind, text = wanted.key
    errors = []
    for name in names:
        try:
            return process.compile(name, kind, text)
        # a thread that ends would let all later requests wait without end
        except Exception as error:
            kind_of = "" if isinstance(error, MiniVllmError) else f"{type(error).__name__}: "
            errors.append(f"{name}: {kind_of}{str(error)[:500]}")
    return GrammarError(f"structured: {kind} cannot be compiled ({'; '.join(errors)})"), 0


def fulfil(future: "Future[NewGrammar]", outcome: Outcome) -> None:
    """Tell whoever waits."""
    if isinstance(outcome, GrammarError):
        # one that was raised holds the frames it was raised in
        future.set_exception(GrammarError(str(outcome)))
    else:
        future.set_result(outcome)


# --- the process ----------------------------------------------------------------------------------


class CompilerProcess(ChildProcess):
    """The process, from this side, and the back ends of this side, which make matchers of what it
    has compiled.
    """

    program = ("-m", f"{__package__}.worker")

    def __init__(
        self, make_vocabulary: MakeVocabulary, max_seconds: float, max_memory_bytes: int
    ) -> None:
        super().__init__(max_seconds, max_memory_bytes)
        self._vocabulary = vocabulary = cache(make_vocabulary)
        self._backend = cache(lambda name: make_backend(name, vocabulary()))

    def compile(self, backend: str, kind: str, text: str) -> tuple[NewGrammar, int]:
        """The grammar and its bytes.

        Raises GrammarError if it cannot be compiled, or takes too much.
        """
        try:
            question = {"backend": backend, "kind": kind, "text": text}
            answer = (
                {"compiled": text}
                if backend == "automaton"
                else self.ask(json.dumps(question).encode())
            )
        except (OSError, EOFError) as error:
            raise GrammarError(f"its compilation {error}") from error
        if "spent" in answer:  # what it has left of its memory is in pieces
            self.close()
        if "error" in answer:
            raise GrammarError(answer["error"])
        return self._backend(backend).load(answer["compiled"])

    def _start(self) -> Popen[bytes]:
        token_bytes, ends = self._vocabulary()
        words = {"tokens": [data.hex() for data in token_bytes], "ends": [*ends]}
        process = super()._start()
        tell(process, json.dumps(words).encode())
        return process
