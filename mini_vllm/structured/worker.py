"""The process that compiles grammars: python -m mini_vllm.structured.worker SECONDS BYTES, started
by compiler.py.

The first question is the vocabulary. The system's own timers kill the process when a grammar takes
so many seconds of the processor (child_process.py). It may take so many bytes beyond what it has
after its imports. What a library writes to stderr is a warning that the grammar is not what was
asked for.
"""

import json
import os
import re
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from typing import Any

from mini_vllm.errors import GrammarError
from mini_vllm.params import StructuredOutputs
from mini_vllm.structured.backends import Vocabulary, make_backend
from mini_vllm.structured.sandbox.child_process import (
    answer,
    limit_further_memory,
    questions,
    set_timers,
)
from mini_vllm.structured.schema import fit_backends

PLACE = re.compile(
    r"^\[[\d:]+\] \S+:\d+: (?:Warning: |Check failed: \(false\) is false: )?"
)  # in xgrammar


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

    def __init__(self, vocabulary: Vocabulary, warnings: Warnings, max_bytes: int) -> None:
        self._warnings, self._max_bytes = warnings, max_bytes
        self.backend = cache(lambda name: make_backend(name, vocabulary))

    def to(self, question: dict[str, str]) -> dict[str, Any]:
        """{"found": names or text}, or {"error": text}; with "spent" the process should not be
        asked again.
        """
        self._warnings.take()
        kind, text = question["kind"], question["text"]
        try:
            if question["what"] == "fit_backends":
                value: Any = json.loads(text) if kind == "choice" else text
                wanted = StructuredOutputs(**{kind: value})
                return {"found": fit_backends(wanted, question["backend"])}
            found = self.backend(question["backend"]).compile(kind, text)
        except GrammarError as error:
            return {"error": str(error)}
        except Exception as error:  # whatever a library raises for what a stranger sends
            if isinstance(error, MemoryError) or "bad_alloc" in str(error):
                limit = f"more than {self._max_bytes >> 20:,} MiB of memory"
                return {"error": f"structured: {kind} needs {limit}", "spent": "this process"}
            return {"error": short(str(error))}
        warning = self._warnings.take()
        return {"error": short(warning)} if "arning" in warning else {"found": found}


def short(text: str) -> str:
    """What a message says, without where in the library it comes from."""
    if "<backtrace>" in text:
        return "the library breaks at it"
    text = text.partition(" Enable 'coerce")[0]  # an option that a client has not
    lines = [PLACE.sub("", line.strip()) for line in text.splitlines() if line.strip(" ^|")]
    return " ".join(dict.fromkeys(lines))[:300] or "it cannot be compiled"


def main() -> None:
    """Answer questions until stdin ends."""
    seconds, max_bytes = float(sys.argv[1]), int(sys.argv[2])
    with suppress(AttributeError, OSError):
        os.nice(5)  # requests that have their grammars go first
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    asked = questions()
    vocabulary = next(asked, None)
    if vocabulary is None:
        return
    token_bytes = [bytes.fromhex(each) for each in vocabulary["tokens"]]
    answers = Answers(Vocabulary(token_bytes, vocabulary["ends"]), Warnings(), max_bytes)
    # its imports are still to come
    limit_further_memory(2 * max_bytes)
    is_limited: set[str] = set()
    for question in asked:
        if question["what"] == "compile" and question["backend"] not in is_limited:
            # it imports the library, which no timer should see
            answers.backend(question["backend"])
            limit_further_memory(max_bytes)
            is_limited.add(question["backend"])
        begun = time.process_time()
        set_timers(seconds)
        found = answers.to(question)
        set_timers(0)
        answer(out, found, begun)


if __name__ == "__main__":
    main()
