"""Requests with a grammar, under any scheduler: they wait until it is compiled, and are masked by it in each step.

A request whose grammar is not compiled stays in the queue and is passed over, so it holds up none behind it and keeps
its place. Whatever else a scheduler decides stays as it is, and so does its class: a GrammarGate stands before a few
methods of one scheduler object. A grammar learns of a token when the step is taken in, so a step that has failed spoils
none.
Source: vllm/v1/core/sched/scheduler.py (_handle_blocked_waiting_request, get_grammar_bitmask, update_from_output),
vllm/v1/structured_output/__init__.py (grammar_bitmask).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import chain, takewhile
from typing import Any, Protocol

from mini_vllm.errors import GrammarError, RequestFailedError, shown
from mini_vllm.params import StructuredOutputs
from mini_vllm.request import Request, RequestStatus
from mini_vllm.request import until_its_end as until_its_end  # under this name labs import it
from mini_vllm.scheduler_interface import SchedulerInterface, SchedulerOutput


class Grammar(Protocol):
    """Where one request is in its grammar. Source: StructuredOutputGrammar of vLLM."""

    @property
    def is_terminated(self) -> bool:
        """Whether the end of the text was accepted: the grammar then accepts nothing more, and masks nothing."""

    def mask(self) -> Any:
        """Which tokens may come next, as StepInput.masks has them."""

    def accept(self, token_id: int) -> bool:
        """Go on by a token; False, and no change, if the grammar does not allow it."""

    def rollback(self, num_tokens: int) -> None:
        """Take back the tokens that were accepted last."""


NewGrammar = Callable[[], Grammar]  # a grammar at its beginning


class GrammarSource(Protocol):
    """Where grammars come from; GrammarCompiler is one."""

    idle_seconds: float
    """How long a step without work may wait for a grammar."""

    def compile(self, wanted: StructuredOutputs) -> "Future[NewGrammar]":
        """Begin to compile; the future may raise GrammarError. Raises a RequestRefusedError for what never could be."""


class GrammarGate:
    """Stands before the methods HOOKS of a scheduler. Requests without a grammar pass it unseen.

    Requests are passed over where the scheduler admits by _schedule_waiting() and _next_waiting(), as V1,
    prefill_first and nano_vllm do. Any other scheduler admits a request that waits for its grammar, and its first step
    waits with it.
    """

    HOOKS = ("add_request", "add_group", "finish_request", "schedule", "update_from_output")
    ADMISSION = ("_schedule_waiting", "_next_waiting")
    DRAFTS = "update_draft_token_ids"

    def __init__(self, scheduler: SchedulerInterface, grammars: GrammarSource) -> None:
        self.scheduler = scheduler
        self.grammars = grammars
        self._compiling: dict[str, Future[NewGrammar]] = {}  # of requests that wait for their grammar
        self._grammars: dict[str, Grammar] = {}  # of those that have it
        self._set_aside: list[Request] = []  # by the admission of this step, in the order of the queue
        self._failed: dict[str, RequestFailedError] = {}  # requests that this step has found without a grammar
        hooks = self.HOOKS + (self.ADMISSION if hasattr(scheduler, "_next_waiting") else ())
        hooks += (self.DRAFTS,) if hasattr(scheduler, self.DRAFTS) else ()
        self._behind: dict[str, Callable[..., Any]] = {name: getattr(scheduler, name) for name in hooks}
        for name in hooks:
            setattr(scheduler, name, getattr(self, name))

    # --- requests come and go -------------------------------------------------------------------------------------

    def add_request(self, request: Request) -> None:
        self._add([request], self._behind["add_request"], request)

    def add_group(self, requests: Sequence[Request]) -> None:
        self._add(requests, self._behind["add_group"], requests)

    def _add(self, requests: Sequence[Request], add: Callable[[Any], None], argument: Any) -> None:
        self.scheduler._check_requests(requests)
        started = {
            request.request_id: self.grammars.compile(request.sampling_params.structured)
            for request in requests
            if request.sampling_params.structured is not None and request.request_id not in self._compiling
        }
        self._compiling |= started
        try:
            add(argument)
        except BaseException:
            for request_id in started:
                self._forget(request_id)
            raise

    def finish_request(self, request_id: str, reason: str) -> Request | None:
        self._forget(request_id)
        found: Request | None = self._behind["finish_request"](request_id, reason)
        return found

    def _forget(self, request_id: str) -> None:
        if (future := self._compiling.pop(request_id, None)) is not None:
            future.cancel()
        self._grammars.pop(request_id, None)

    # --- waiting for the grammar ----------------------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput:
        """Decide the next step, and say what its samples may be."""
        self._failed = {}
        output: SchedulerOutput = self._behind["schedule"]()
        if self._compiling:
            self._take_admitted(output)
            output.blocked = dict.fromkeys(self._compiling, "grammar")
            if not output.num_scheduled_tokens and self.grammars.idle_seconds and not self._failed:
                wait(self._compiling.values(), self.grammars.idle_seconds, FIRST_COMPLETED)
        if self._grammars:
            output.masks = {
                request.request_id: self._rows(request, output.drafts.get(parent.request_id, ()), parent, output)
                for parent, request in self._sampling(output)
                if request.request_id in self._grammars
            }
        return output

    def _schedule_waiting(self, output: SchedulerOutput, token_budget: int) -> None:
        """Admit; what was passed over stands in front of the queue again, in its old order."""
        self._behind["_schedule_waiting"](output, token_budget)
        self.scheduler.waiting.extendleft(reversed(self._set_aside))
        self._set_aside = []

    def _next_waiting(self) -> Request | None:
        """The first request that does not wait for its grammar; those before it are set aside."""
        while True:
            request: Request | None = self._behind["_next_waiting"]()
            if request is None or not self._must_wait(request.request_id):
                return request
            self.scheduler.waiting.remove(request)
            self._set_aside.append(request)

    def _must_wait(self, request_id: str) -> bool:
        """Whether a request has no grammar yet, though it wants one, or never will. It is looked at only here."""
        future = self._compiling.get(request_id)
        return future is not None and not (future.done() and self._begin(request_id, future))

    def _begin(self, request_id: str, future: "Future[NewGrammar]") -> bool:
        """Give a request its grammar, if it could be compiled. Waits for it."""
        try:
            self._grammars[request_id] = future.result()()
        except RequestFailedError as error:
            self._failed[request_id] = GrammarError(f"request {shown(request_id)}: {error}")
            return False
        del self._compiling[request_id]
        return True

    def _take_admitted(self, output: SchedulerOutput) -> None:
        """Wait for the grammars of requests that the scheduler has admitted without asking."""
        for _, request in self._sampling(output):
            if (future := self._compiling.get(request.request_id)) is not None:
                self._begin(request.request_id, future)

    # --- masks ----------------------------------------------------------------------------------------------------

    def _sampling(self, output: SchedulerOutput) -> Iterator[tuple[Request, Request]]:
        """Each request that samples in this step, in scheduling order, behind the one whose logits it samples from."""
        for parent in output.scheduled_requests:
            if self.scheduler.needs_sample(parent, output.num_scheduled_tokens[parent.request_id]):
                for request in (parent, *output.sampling_along.get(parent.request_id, ())):
                    yield parent, request

    def _rows(self, request: Request, drafts: Sequence[int], parent: Request, output: SchedulerOutput) -> list[Any]:
        """A mask for each sample: the next token, and the one behind each draft, as if it were right.

        Behind a draft that the grammar does not allow the last mask is repeated, since no token is taken from there;
        behind one that stands for none (-1) anything is allowed.
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

    # --- after the step -------------------------------------------------------------------------------------------

    def update_from_output(
        self, output: SchedulerOutput, sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> list[Request]:
        """Tell the grammars what was sampled. A request whose token is not allowed ends with it, and with an error.

        That happens behind the end of a text that does not end the request (ignore_eos). Then come requests whose
        grammar could not be compiled.
        """
        rejected = []
        for request in self._in_step(output) if self._grammars else ():
            grammar = self._grammars.get(request.request_id)
            token_ids = sampled_token_ids.get(request.request_id, ())
            if len(token_ids) > 1:
                token_ids = until_its_end(request, token_ids)
            if grammar is not None and (n := sum(1 for _ in takewhile(grammar.accept, token_ids))) < len(token_ids):
                rejected.append(request)
                request.max_tokens = len(request.output_token_ids) + n + 1  # it ends in its place of the step
        finished: list[Request] = self._behind["update_from_output"](output, sampled_token_ids)
        for request in rejected:
            request.status = RequestStatus.FINISHED_ERROR
            text = f"request {shown(request.request_id)}: its grammar does not allow token {request.all_token_ids[-1]}"
            output.errors[request.request_id] = RequestFailedError(text)
        for request_id in sorted(self._failed):
            if (unable := self.scheduler.finish_request(request_id, "error")) is not None:
                output.errors[request_id] = self._failed[request_id]
                finished.append(unable)
        self._failed = {}
        if self._grammars or self._compiling:
            for request in finished:
                self._forget(request.request_id)
        return finished

    def update_draft_token_ids(self, drafts: Mapping[str, Sequence[int]]) -> None:
        """New drafts: those of a request up to the first that its grammar does not allow."""
        allowed = {name: self._allowed(self._grammars.get(name), token_ids) for name, token_ids in drafts.items()}
        self._behind[self.DRAFTS](allowed)

    @staticmethod
    def _allowed(grammar: Grammar | None, drafts: Sequence[int]) -> Sequence[int]:
        if grammar is None:
            return drafts
        allowed = list(takewhile(lambda draft: draft >= 0 and grammar.accept(draft), drafts))
        grammar.rollback(len(allowed))
        return allowed

    @staticmethod
    def _in_step(output: SchedulerOutput) -> Iterator[Request]:
        for request in chain(output.scheduled_requests, *output.sampling_along.values()):
            if request.status is RequestStatus.RUNNING:
                yield request
