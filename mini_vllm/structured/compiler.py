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
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache
from queue import SimpleQueue
from subprocess import Popen
from typing import Any

from mini_vllm.errors import GrammarError, MiniVllmError, how_to_install
from mini_vllm.params import StructuredOutputs
from mini_vllm.structured.backends import MakeVocabulary, is_installed, make_backend
from mini_vllm.structured.sandbox.child_process import ChildProcess, tell
from mini_vllm.structured.scheduler import NewGrammar
from mini_vllm.structured.schema import check_size, possible_backends

MAX_SECONDS = 5.0
MAX_MEMORY_BYTES = 2 << 30  # beyond what the process has when it begins
MAX_CACHE_BYTES = 256 << 20

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
        check_size(wanted)
        kind, text = wanted.key
        # in no time, and where there is neither process nor thread
        if installed(kind, possible_backends(kind, self._backend)) == ["automaton"]:
            outcome, num_bytes = self._process.compile("automaton", kind, text)
            self._compiled.put(wanted.key, outcome, num_bytes)
            fulfil(future, outcome)
            return future
        if self._thread is None:
            self._thread = threading.Thread(
                target=work,
                args=(self._jobs, self._process, self._compiled, self._backend),
                daemon=True,
            )
            self._thread.start()
            weakref.finalize(self, self._jobs.put, None)
        self._jobs.put((wanted, future))
        return future

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
    backend: str,
) -> None:
    """Compile what is asked for, one after the other, until there is None."""
    while (job := jobs.get()) is not None:
        wanted, future = job
        if not future.set_running_or_notify_cancel():  # its client has left
            continue
        outcome = compiled.get(wanted.key)
        if outcome is None:
            outcome, num_bytes = compile_with(process, wanted, backend)
            compiled.put(wanted.key, outcome, num_bytes)
        fulfil(future, outcome)
        del job, wanted, future, outcome


def compile_with(
    process: "CompilerProcess", wanted: StructuredOutputs, backend: str
) -> tuple[Outcome, int]:
    """The grammar by the first back end that can compile it, and its bytes; or why none can."""
    kind, text = wanted.key
    errors = []
    try:
        for name in installed(kind, process.fit_backends(backend, kind, text)):
            try:
                return process.compile(name, kind, text)
            except Exception as error:
                errors.append(f"{name}: {told(error)}")
    # a thread that ends would let all later requests wait without end
    except Exception as error:
        return GrammarError(told(error)), 0
    return GrammarError(f"structured: {kind} cannot be compiled ({'; '.join(errors)})"), 0


def told(error: Exception) -> str:
    """What an error says, and its kind unless it is one of the engine's own."""
    kind = "" if isinstance(error, MiniVllmError) else f"{type(error).__name__}: "
    return kind + str(error)[:500]


def installed(kind: str, names: Sequence[str]) -> list[str]:
    """Those of these back ends whose packages are there. Raises GrammarError if none is."""
    found = [name for name in names if is_installed(name)]
    if not found:
        needed = f"{' or '.join(sorted(names, reverse=True))}, which is not installed"
        raise GrammarError(f"structured: {kind} needs {needed}. {how_to_install('structured')}")
    return found


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

    def fit_backends(self, backend: str, kind: str, text: str) -> list[str]:
        """As schema.py has it, which the process runs."""
        names: list[str] = self._answer("fit_backends", backend, kind, text)
        return names

    def compile(self, backend: str, kind: str, text: str) -> tuple[NewGrammar, int]:
        """The grammar and its bytes."""
        is_here = backend == "automaton"
        compiled = text if is_here else self._answer("compile", backend, kind, text)
        return self._backend(backend).load(compiled)

    def _answer(self, what: str, backend: str, kind: str, text: str) -> Any:
        """Raises GrammarError if it says no, or has to be killed."""
        question = {"what": what, "backend": backend, "kind": kind, "text": text}
        try:
            answer = self.ask(json.dumps(question).encode())
        except (OSError, EOFError) as error:
            raise GrammarError(f"structured: {kind}: its compilation {error}") from error
        if "spent" in answer:  # what it has left of its memory is in pieces
            self.close()
        if "error" in answer:
            raise GrammarError(answer["error"])
        return answer["found"]

    def _start(self) -> Popen[bytes]:
        token_bytes, ends = self._vocabulary()
        words = {"tokens": [data.hex() for data in token_bytes], "ends": [*ends]}
        process = super()._start()
        tell(process, json.dumps(words).encode())
        return process
