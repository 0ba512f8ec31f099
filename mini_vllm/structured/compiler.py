"""GrammarCompiler: grammars by the text that they were compiled from, and the process that compiles
them.

A grammar is compiled in a process of its own (worker.py), since a library cannot be stopped within
a long call: the process has so many seconds of the processor for each grammar and so much memory,
and is killed when it takes more. Threads here ask and read the answers, in turns between the
tenants that want grammars; the thread that steps only looks at futures. What was compiled is kept
in bounded bytes, those that were used last; so are refusals, or a bad one could be sent again and
again. One that differs in a byte is another one, so what a tenant may have compiled in a minute is
bounded, too. Source: StructuredOutputManager in vllm/v1/structured_output/__init__.py, which
compiles in threads.
"""

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future
from functools import cache, partial
from subprocess import Popen
from typing import Any

from mini_vllm.errors import GrammarError, MiniVllmError, how_to_install
from mini_vllm.params import StructuredOutputs
from mini_vllm.structured.backends import MakeVocabulary, is_installed, make_backend
from mini_vllm.structured.sandbox.child_process import ChildProcess, ProcessPool, tell
from mini_vllm.structured.sandbox.fair_threads import FairThreads
from mini_vllm.structured.scheduler import NewGrammar
from mini_vllm.structured.schema import check_size, possible_backends

MAX_SECONDS = 5.0
MAX_MEMORY_BYTES = 2 << 30  # beyond what the process has when it begins
MAX_CACHE_BYTES = 256 << 20
NUM_PROCESSES = 4  # of which a client has one at a time, and another one for large grammars
MAX_SECONDS_A_MINUTE = 20.0  # of the processor, for each tenant

Key = tuple[str, str]
Outcome = NewGrammar | GrammarError


class GrammarCompiler:
    """A GrammarSource (scheduler.py). backend: of EngineConfig.structured_outputs_backend.

    make_vocabulary is called when a process is first started, which is when a grammar is first
    asked for. Any thread may call it. It ends with close(), with this object, or with the process
    that made it. threads: that ask the processes.
    """

    idle_seconds = 0.01

    def __init__(
        self,
        make_vocabulary: MakeVocabulary,
        backend: str = "auto",
        max_seconds: float = MAX_SECONDS,
        max_memory_bytes: int = MAX_MEMORY_BYTES,
        max_cache_bytes: int = MAX_CACHE_BYTES,
        threads: FairThreads | None = None,
    ) -> None:
        self._backend = backend
        self._compiled = compiled = BoundedCache(max_cache_bytes)
        make = partial(CompilerProcess, cache(make_vocabulary), max_seconds, max_memory_bytes)
        self._processes = processes = ProcessPool(make)
        self._threads = threads or FairThreads(NUM_PROCESSES, MAX_SECONDS_A_MINUTE)
        self._compile = partial(compile_in, processes, compiled, backend)

    def compile(self, wanted: StructuredOutputs, client: str = "") -> "Future[NewGrammar]":
        """The grammar, now if it was compiled before. client: whose request wants it.

        Raises GrammarError for what is refused at sight.
        """
        future: Future[NewGrammar] = Future()
        known = self._compiled.get(wanted.key)
        if known is None:
            check_size(wanted)
            kind, text = wanted.key
            if installed(kind, possible_backends(kind, self._backend)) != ["automaton"]:
                size = "large" if len(text) > 2048 else "small"
                return self._threads.submit(f"{client}/{size}", partial(self._compile, wanted))
            # in no time, and where there is neither process nor thread
            with self._processes.one() as process:
                known, num_bytes = process.compile("automaton", kind, text)
            self._compiled.put(wanted.key, known, num_bytes)
        if isinstance(known, GrammarError):
            future.set_exception(renewed(known))
        else:
            future.set_result(known)
        return future

    def close(self) -> None:
        """End the threads and the processes."""
        self._threads.close()
        self._processes.close()


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


# --- a thread -------------------------------------------------------------------------------------


def compile_in(
    processes: "ProcessPool[CompilerProcess]",
    compiled: BoundedCache,
    backend: str,
    wanted: StructuredOutputs,
) -> NewGrammar:
    """The grammar, which another request may have wanted meanwhile. Raises GrammarError."""
    outcome = compiled.get(wanted.key)
    if outcome is None:
        with processes.one() as process:
            outcome, num_bytes = compile_with(process, wanted, backend)
        compiled.put(wanted.key, outcome, num_bytes)
    if isinstance(outcome, GrammarError):
        raise renewed(outcome)
    return outcome


def renewed(error: GrammarError) -> GrammarError:
    """The same again: one that was raised holds the frames that it was raised in."""
    return GrammarError(str(error))


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
    except Exception as error:
        return GrammarError(told(error)), 0
    return GrammarError(f"structured: {kind} cannot be compiled ({'; '.join(errors)})"), 0


def told(error: Exception) -> str:
    """What an error says, and its kind unless it is one of the engine's own."""
    kind = "" if isinstance(error, MiniVllmError) else f"{type(error).__name__}: "
    return f"{kind}{error}"


def installed(kind: str, names: Sequence[str]) -> list[str]:
    """Those of these back ends whose packages are there. Raises GrammarError if none is."""
    found = [name for name in names if is_installed(name)]
    if not found:
        needed = f"{' or '.join(sorted(names, reverse=True))}, which is not installed"
        raise GrammarError(f"structured: {kind} needs {needed}. {how_to_install('structured')}")
    return found


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
        self._vocabulary = vocabulary = make_vocabulary
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
