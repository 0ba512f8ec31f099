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
from mini_vllm.structured.sandbox.fair_threads import FairThreads, TurnOverError
from mini_vllm.structured.scheduler import NewGrammar
from mini_vllm.structured.schema import check_size, possible_backends

MAX_SECONDS = 5.0
MAX_MEMORY_BYTES = 2 << 30  # beyond what the process has when it begins
MAX_CACHE_BYTES = 256 << 20
NUM_PROCESSES = 4  # of which a client has one at a time, and another one for large grammars
QUICK_SECONDS = 1.0  # for a short text; one that takes more begins again among the long ones
MAX_SECONDS_A_MINUTE = 20.0  # of the processor, for each tenant

Key = tuple[str, str]
Outcome = NewGrammar | GrammarError


class KilledError(GrammarError):
    """The process that compiled it was killed, or has no memory left."""


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
        threads: FairThreads | None = None,
    ) -> None:
        self._backend = backend
        self._compiled = compiled = BoundedCache(MAX_CACHE_BYTES)
        vocabulary = cache(make_vocabulary)
        self._processes = ProcessPool(partial(CompilerProcess, vocabulary, max_seconds))
        self._quick = ProcessPool(partial(QuickProcess, vocabulary, QUICK_SECONDS))
        self._threads = threads or FairThreads(NUM_PROCESSES, MAX_SECONDS_A_MINUTE)
        self._compile = partial(compile_in, compiled, backend)

    def compile(self, wanted: StructuredOutputs, client: str = "") -> "Future[NewGrammar]":
        """The grammar, now if it was compiled before. client: whose request wants it.

        Raises GrammarError for what is refused at sight.
        """
        known = self._compiled.get(wanted.key)
        if known is None:
            check_size(wanted)
            kind, text = wanted.key
            if installed(kind, possible_backends(kind, self._backend)) != ["automaton"]:
                long = f"{client}/long", partial(self._compile, self._processes, wanted)
                short = f"{client}/short", partial(self._compile, self._quick, wanted)
                return self._threads.submit(*(() if len(text) > 2048 else short), *long)
            # in no time, and where there is neither process nor thread
            with self._processes.one() as process:
                known, num_bytes = process.compile("automaton", kind, text)
            self._compiled.put(wanted.key, known, num_bytes)
        future: Future[NewGrammar] = Future()
        if isinstance(known, GrammarError):
            future.set_exception(GrammarError(str(known)))
        else:
            future.set_result(known)
        return future

    def close(self) -> None:
        """End the threads and the processes."""
        self._threads.close()
        for pool in (self._processes, self._quick):
            pool.close()


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
    compiled: BoundedCache,
    backend: str,
    processes: "ProcessPool[CompilerProcess]",
    wanted: StructuredOutputs,
) -> NewGrammar:
    """The grammar, which another request may have wanted meanwhile.

    Raises GrammarError, and what the processes raise for one that takes too long.
    """
    outcome = compiled.get(wanted.key)
    if outcome is None:
        with processes.one() as process:
            outcome, num_bytes = compile_with(process, wanted, backend)
        compiled.put(wanted.key, outcome, num_bytes)
    if isinstance(outcome, GrammarError):  # one that was raised holds the frames it came through
        raise GrammarError(str(outcome))
    return outcome


def compile_with(
    process: "CompilerProcess", wanted: StructuredOutputs, backend: str
) -> tuple[Outcome, int]:
    """The grammar by the first back end that can compile it, and its bytes; or why none can.

    What has ended the process is not tried again.
    """
    kind, text = wanted.key
    errors = []
    try:
        for name in installed(kind, process.answer("fit_backends", backend, kind, text)):
            try:
                return process.compile(name, kind, text)
            except KilledError:
                raise
            except Exception as error:
                errors.append(f"{name}: {error}")
        raise GrammarError(f"structured: {kind} cannot be compiled ({'; '.join(errors)})")
    except Exception as error:
        name = "" if isinstance(error, MiniVllmError) else f"{type(error).__name__}: "
        return GrammarError(f"{name}{error}"), 0


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
    too_slow: type[BaseException] = KilledError  # is raised for what takes too long

    def __init__(self, make_vocabulary: MakeVocabulary, max_seconds: float) -> None:
        super().__init__(max_seconds, MAX_MEMORY_BYTES)
        self._vocabulary = vocabulary = make_vocabulary
        self._backend = cache(lambda name: make_backend(name, vocabulary()))

    def compile(self, backend: str, kind: str, text: str) -> tuple[NewGrammar, int]:
        """The grammar and its bytes."""
        if backend != "automaton":  # which is no library
            text = self.answer("compile", backend, kind, text)
        return self._backend(backend).load(text)

    def answer(self, what: str, backend: str, kind: str, text: str) -> Any:
        """What the process says (worker.py). Raises GrammarError if it says no, or is killed."""
        question = {"what": what, "backend": backend, "kind": kind, "text": text}
        try:
            answer = self.ask(json.dumps(question).encode())
        except (OSError, EOFError) as error:
            raised = self.too_slow if isinstance(error, TimeoutError) else KilledError
            raise raised(f"structured: {kind}: its compilation {error}") from error
        if "spent" in answer:  # what it has left of its memory is in pieces
            self.close()
            raise KilledError(answer["error"])
        if "error" in answer:
            raise GrammarError(answer["error"])
        return answer["found"]

    def _start(self) -> Popen[bytes]:
        token_bytes, ends = self._vocabulary()
        words = {"tokens": [data.hex() for data in token_bytes], "ends": [*ends]}
        process = super()._start()
        tell(process, json.dumps(words).encode())
        return process


class QuickProcess(CompilerProcess):
    """One for short texts. What takes too long for it may still be compiled."""

    too_slow = TurnOverError
