"""How long masks may take: they are made in the step, where each request waits for all of them.

A grammar that is compiled in no time may still need long for a mask. What a client's masks take
beyond some milliseconds each is counted, and a request of a client that has had too much of it ends
with an error.
"""

import time
from collections.abc import Callable
from typing import Any

from mini_vllm.errors import GrammarError, shown
from mini_vllm.params import SamplingParams
from mini_vllm.request import Request
from mini_vllm.structured.sandbox.fair_threads import Account
from mini_vllm.structured.scheduler import Grammar, GrammarGate, GrammarSource, NewGrammar

# Python in a browser has one thread, and no clock of a thread.
CPU_CLOCK: Callable[[], float] = getattr(time, "thread_time", time.process_time)
QUICK_SECONDS = 0.01  # of the processor: more than a mask takes for 128,000 tokens
MAX_SLOW_SECONDS = 1.0  # beyond them, in a minute: a collection of garbage may fall into a mask


class TimedGrammarGate(GrammarGate):
    """A gate that counts what the masks of each client take of the thread that steps."""

    def __init__(
        self,
        grammars: GrammarSource,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = CPU_CLOCK,
    ) -> None:
        super().__init__(grammars)
        self.cpu_clock = cpu_clock
        self._account = Account(MAX_SLOW_SECONDS, clock)
        self._last: SamplingParams | None = None  # of the request that was refused last

    def begin(self, new: NewGrammar, request: Request) -> Grammar:
        return TimedGrammar(new(), request, self)

    def check(self, request: Request, seconds: float = 0) -> None:
        """A mask has taken so many seconds, or none yet.

        Raises GrammarError if it was slow and the client's were before. So does the next choice of
        the same request without a mask.
        """
        if seconds > QUICK_SECONDS:
            self._account.add(request.client, seconds - QUICK_SECONDS)
            if self._account.used(request.client) > MAX_SLOW_SECONDS:
                self._last = request.sampling_params
        if self._last is request.sampling_params:
            raise GrammarError(
                f"request {shown(request.request_id)}: its grammar takes too long for a token"
            )


class TimedGrammar:
    """A Grammar that raises GrammarError when it is too slow."""

    def __init__(self, grammar: Grammar, request: Request, gate: TimedGrammarGate) -> None:
        self._grammar, self._request, self._gate = grammar, request, gate
        self.accept, self.rollback = grammar.accept, grammar.rollback

    @property
    def is_terminated(self) -> bool:
        return self._grammar.is_terminated

    def mask(self) -> Any:
        self._gate.check(self._request)
        begun = self._gate.cpu_clock()
        mask = self._grammar.mask()
        self._gate.check(self._request, self._gate.cpu_clock() - begun)
        return mask
