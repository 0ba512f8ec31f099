"""Requests with a grammar, under any scheduler: they wait until it is compiled, and are masked by
it in each step.

A request whose grammar is not compiled stays in the queue and is passed over, so it holds up none
behind it and keeps its place. Whatever else a scheduler decides stays as it is: a GrammarGate is a
part that it asks. A grammar learns of a token when the step is taken in, so a step that has failed
spoils none. Source: vllm/v1/core/sched/scheduler.py (_handle_blocked_waiting_request,
get_grammar_bitmask, update_from_output), vllm/v1/structured_output/__init__.py (grammar_bitmask).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import takewhile
from typing import Any, Protocol

from mini_vllm.errors import GrammarError, RequestFailedError, shown
from mini_vllm.params import StructuredOutputs
from mini_vllm.request import Request
from mini_vllm.request import until_its_end as until_its_end  # under this name labs import it
from mini_vllm.scheduler_interface import Part, SchedulerInterface, SchedulerOutput, Step


class Grammar(Protocol):
    """Where one request is in its grammar. Source: StructuredOutputGrammar of vLLM."""

    @property
    def is_terminated(self) -> bool:
        """Whether the end of the text was accepted: the grammar then accepts nothing more, and
        masks nothing.
        """

    def mask(self) -> Any:
        """Which tokens may come next, as StepInput.masks has them. Raises GrammarError."""

    def accept(self, token_id: int) -> bool:
        """Go on by a token; False, and no change, if the grammar does not allow it."""

    def rollback(self, num_tokens: int) -> None:
        """Take back the tokens that were accepted last."""


NewGrammar = Callable[[], Grammar]  # a grammar at its beginning


class GrammarSource(Protocol):
    """Where grammars come from; GrammarCompiler is one."""

    idle_seconds: float
    """How long a step without work may wait for a grammar."""

    def compile(self, wanted: StructuredOutputs, client: str = "") -> "Future[NewGrammar]":
        """Begin to compile, for a request of this client; the future may raise GrammarError.

        Raises a RequestRefusedError for what never could be.
        """


class GrammarGate(Part):
    """Holds back requests whose grammar is not compiled, masks what is sampled, and tells grammars
    what was.

    Requests are passed over where the scheduler admits by _next_admissible(), as V1, prefill_first
    and nano_vllm do. Any other scheduler admits a request that waits for its grammar, and its first
    step waits with it.
    """

    def __init__(self, grammars: GrammarSource) -> None:
        self.grammars = grammars
        # of requests that wait for their grammar
        self._compiling: dict[str, Future[NewGrammar]] = {}
        self._grammars: dict[str, Grammar] = {}  # of those that have it
        # of those whose grammar could not be compiled, why
        self._failed: dict[Request, GrammarError] = {}

    # --- requests come and go ---------------------------------------------------------------------

    def add(self, requests: Sequence[Request]) -> None:
        """Begin to compile what they want."""
        self._compiling |= {
            request.request_id: self.grammars.compile(
                request.sampling_params.structured, request.client
            )
            for request in requests
            if request.sampling_params.structured is not None
        }

    def ended(self, request: Request) -> None:
        if (future := self._compiling.pop(request.request_id, None)) is not None:
            future.cancel()
        self._grammars.pop(request.request_id, None)
        self._failed.pop(request, None)

    # --- waiting for the grammar ------------------------------------------------------------------

    def may_admit(self, request: Request) -> bool:
        """Whether a request has its grammar, or wants none.

        A compiled one is looked at only here.
        """
        future = self._compiling.get(request.request_id)
        return future is None or (future.done() and self._begin(request, future))

    def _begin(self, request: Request, future: "Future[NewGrammar]") -> bool:
        """Give a request its grammar, if it could be compiled. Waits for it."""
        request_id = request.request_id
        try:
            self._grammars[request_id] = self.begin(future.result(), request)
        except RequestFailedError as error:
            self._failed[request] = GrammarError(f"request {shown(request_id)}: {error}")
            return False
        del self._compiling[request_id]
        return True

    def begin(self, new: NewGrammar, request: Request) -> Grammar:
        """The grammar of a request, at its beginning."""
        return new()

    def after_schedule(self, step: Step, scheduler: SchedulerInterface) -> None:
        """Say what the step's samples may be, and which requests wait.

        A mask depends on all tokens before it. Source: pending_structured_output_tokens of vLLM.
        """
        output = step.output
        if self._compiling:
            for _, request in sampling(output, scheduler):
                if (future := self._compiling.get(request.request_id)) is not None:
                    self._begin(request, future)  # the scheduler has admitted it without asking
            output.blocked.update(dict.fromkeys(self._compiling, "grammar"))
            if not output.num_scheduled_tokens and self.grammars.idle_seconds and not self._failed:
                wait(self._compiling.values(), self.grammars.idle_seconds, FIRST_COMPLETED)
        for parent, request in sampling(output, scheduler) if self._grammars else ():
            name, drafts = request.request_id, output.drafts.get(parent.request_id, ())
            try:
                if name in self._grammars:
                    if parent.num_computed_tokens >= parent.num_tokens:
                        step.unanswered.append(self)
                        return
                    output.masks[name] = self._rows(request, drafts, parent, output)
            except GrammarError as error:
                del self._grammars[name]
                step.end(request, error)

    # --- masks ------------------------------------------------------------------------------------

    def _rows(
        self, request: Request, drafts: Sequence[int], parent: Request, output: SchedulerOutput
    ) -> list[Any]:
        """A mask for each sample: the next token, and the one behind each draft, as if it were
        right.

        Behind a draft that the grammar does not allow the last mask is repeated, since no token is
        taken from there; behind one that stands for none (-1) anything is allowed.
        """
        grammar, num_accepted = self._grammars[request.request_id], 0
        rows = [None if grammar.is_terminated else grammar.mask()]
        if not drafts:
            return rows
        end = parent.num_computed_tokens + output.num_scheduled_tokens[parent.request_id]
        drafts = drafts[: end - parent.num_tokens]
        for draft in drafts:
            if draft < 0 or not grammar.accept(draft):
                rows += [None if draft < 0 else rows[-1]] * (len(drafts) - num_accepted)
                break
            num_accepted += 1
            rows.append(None if grammar.is_terminated else grammar.mask())
        if num_accepted:
            grammar.rollback(num_accepted)
        return rows

    # --- after the step ---------------------------------------------------------------------------

    def before_update(self, step: Step, sampled_token_ids: Mapping[str, Sequence[int]]) -> None:
        """Tell the grammars what was sampled, and end the requests whose grammar is wrong.

        A request whose token is not allowed ends with it, and with an error.

        That happens behind the end of a text that does not end the request (ignore_eos), and where
        a grammar becomes too complex for its library.
        """
        for request in sorted(self._failed, key=lambda request: request.request_id):
            step.end(request, self._failed[request])
        for request in step.requests if self._grammars else ():
            grammar = self._grammars.get(request.request_id)
            if grammar is None or request.is_finished:
                continue
            token_ids = sampled_token_ids.get(request.request_id, ())
            if len(token_ids) > 1:
                token_ids = until_its_end(request, token_ids)
            num_allowed = sum(1 for _ in takewhile(grammar.accept, token_ids))
            if num_allowed < len(token_ids):
                name = shown(request.request_id)
                text = f"request {name}: its grammar does not allow token {token_ids[num_allowed]}"
                text = f"{text}, or is too complex for its library"
                step.end(request, GrammarError(text), num_allowed + 1)

    def allowed_drafts(self, drafts: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
        """New drafts, by request: those of each up to the first that its grammar does not allow."""
        return {
            name: self._allowed(self._grammars.get(name), token_ids)
            for name, token_ids in drafts.items()
        }

    @staticmethod
    def _allowed(grammar: Grammar | None, drafts: Sequence[int]) -> Sequence[int]:
        if grammar is None:
            return drafts
        allowed = list(takewhile(lambda draft: draft >= 0 and grammar.accept(draft), drafts))
        grammar.rollback(len(allowed))
        return allowed


def sampling(
    output: SchedulerOutput, scheduler: SchedulerInterface
) -> Iterator[tuple[Request, Request]]:
    """Each request that samples in a step, in scheduling order, behind the one whose logits it
    samples from.
    """
    for parent in output.scheduled_requests:
        num_behind = parent.num_tokens - parent.num_computed_tokens  # beyond it are drafts
        num_known = min(output.num_scheduled_tokens[parent.request_id], num_behind)
        if scheduler.needs_sample(parent, num_known):
            for request in (parent, *output.sampling_along.get(parent.request_id, ())):
                yield parent, request
