"""A conversation in a page of the book: the bundled model answers on an engine with a learner's parts in it.

The texts of the parts are those of the page's editors. The pool is tight and other requests run at the same time, so
that the parts have something to decide. What they decide is compared with the reference: first on the same arrivals,
then on those of labkit.compare.behaviour.
"""

import json
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from labkit.compare import behaviour
from labkit.grade.messages import clip
from labkit.labs.catalog import LabkitError, find_lab
from labkit.labs.graft import Part, grafted
from labkit.labs.together import Reasons, by_reason
from labkit.web.words import in_a_page

ALONE: dict[str, Any] = {"num_kv_blocks": 49, "max_num_batched_tokens": 32}
TIGHT: dict[str, Any] = {"num_kv_blocks": 12, "max_num_batched_tokens": 16}
COMPANY = {"ann": "What is a block table?", "ben": "What is prefix caching?"}
MOST_TOKENS, MOST_TOKENS_OF_COMPANY = 120, 40
STEPS_BETWEEN_TRACES = 8  # the page draws the steps as they come, but not each of them
BLOCKS = ("new", "blocks", "tables")  # of a step's record; a correct part may choose other blocks


def parts_of(texts: Mapping[str, str]) -> tuple[list[Part], Reasons]:
    """The learner's parts, and why other parts are the reference's. texts: by lab id, "" where nothing is written."""
    parts: list[Part] = []
    left_out: Reasons = {}
    for lab in map(find_lab, texts):
        try:
            part = Part(lab, lab.mine, texts[lab.id]) if texts[lab.id] else None
        except LabkitError as error:
            left_out[lab.id] = clip(in_a_page(" ".join(str(error).splitlines()[:2])), 200)
            continue
        if part is None or part.unwritten:
            left_out[lab.id] = "not written yet" if part else "not begun"
        else:
            parts.append(part)
    return parts, left_out


class Conversation:
    """One engine, and what was asked. It is good until the next import of the engine (labkit.web.book)."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """texts: see parts_of(); none for the engine as it is."""
        from mini_vllm.config import EngineConfig
        from mini_vllm.engine.llm_engine import LLMEngine
        from mini_vllm.observe.trace import TraceRecorder

        self.parts, self.left_out = parts_of(texts)
        self.company = COMPANY if texts else {}
        with grafted(self.parts):
            self.engine = LLMEngine(EngineConfig("tiny", **(TIGHT if texts else ALONE)))
        self.recorder = TraceRecorder(self.engine.scheduler)
        self.engine.listeners.append(self.recorder)
        self.requests: list[dict[str, Any]] = []  # as a scenario gives them
        self.aborts: list[dict[str, Any]] = []
        self.num_questions = 0

    def whose(self) -> str:
        """Which parts are the learner's, in a sentence for each reason."""
        names = ", ".join(part.lab.id for part in self.parts)
        reasons = [f"The reference's, {why}: {', '.join(ids)}." for why, ids in by_reason(self.left_out).items()]
        return " ".join([f"Yours: {names}." if names else "Nothing of yours is in it.", *reasons])

    # --- an answer ------------------------------------------------------------------------------------------------

    def answer(self, messages: str) -> Iterator[str]:
        """Notes, one for each step: {"said", "num_tokens"}, at times with "trace"; or the last one, {"error"}.

        messages: the whole conversation, as JSON. If the caller closes the iterator, the requests are aborted.
        """
        asked = json.loads(messages)
        self.num_questions += 1
        suffix = "" if self.num_questions == 1 else f"-{self.num_questions}"
        with grafted(self.parts):
            try:
                self._add("chat" + suffix, asked, MOST_TOKENS)
                for name, question in self.company.items():
                    self._add(name + suffix, [{"role": "user", "content": question}], MOST_TOKENS_OF_COMPANY)
                yield from map(json.dumps, self._steps("chat" + suffix))
            except GeneratorExit:
                with suppress(Exception):  # of a part; the next question finds it again
                    self._abort()
                raise
            except Exception as error:
                yield json.dumps({"error": self._explain(error)})

    def _add(self, name: str, messages: Sequence[Mapping[str, str]], max_tokens: int) -> None:
        """Ask, in the form of the bundled model's chat template."""
        from mini_vllm.params import SamplingParams

        turns = "".join(f"<|im_start|>{each['role']}\n{each['content']}<|im_end|>\n" for each in messages)
        prompt, now = self.engine.tokenize(turns + "<|im_start|>assistant\n"), len(self.requests)
        params = SamplingParams(temperature=0.0, max_tokens=max_tokens)
        self.engine.add_request(name, prompt, params, arrival_time=float(now))
        request = {"id": name, "prompt": prompt, "max_tokens": max_tokens, "arrival_time": float(now)}
        request |= {"arrival_step": len(self.recorder.steps), "prompt_text": messages[-1]["content"]}
        self.requests.append(request | {"stop_token_ids": list(self.engine.input_processor.eos_token_ids)})

    def _steps(self, name: str) -> Iterator[dict[str, Any]]:
        num_steps = 0
        while self.engine.has_unfinished_requests():
            note: dict[str, Any] = {}
            for output in self.engine.step():
                if output.request_id == name:
                    note |= {"said": output.outputs[0].text, "num_tokens": len(output.outputs[0].token_ids)}
            num_steps += 1
            if num_steps % STEPS_BETWEEN_TRACES == 0:
                note["trace"] = self._record()
            yield note

    def _abort(self) -> None:
        """Drop what is asked and not answered."""
        step = len(self.recorder.steps)
        for name in [request["id"] for request in self.requests]:
            if self.engine.output_processor.has_request(name):
                self.engine.abort(name)
                self.aborts.append({"id": name, "step": step, "phase": "before"})

    def _explain(self, error: Exception) -> str:
        """What went wrong, and in which line of the learner's."""
        if not self.parts:
            return str(error)
        said = f"{type(error).__name__}: {clip(str(error), 300)}"
        labs = {str(part.file): part.lab for part in self.parts}
        for entry in reversed(traceback.extract_tb(error.__traceback__)):
            if lab := labs.get(entry.filename):
                return f"{said}\nyour line: {lab.id}, line {entry.lineno}: {entry.line}"
        return said

    def _record(self) -> dict[str, Any]:
        return self.recorder.to_trace("your question", self.requests, self.aborts)

    def trace(self) -> str:
        """All steps so far, as JSON."""
        return json.dumps(self._record())

    # --- beside the reference -------------------------------------------------------------------------------------

    def differ(self, tell: Callable[[str], object]) -> str:
        """Where the parts first do something else than the reference: {"said"}, with "state", "figures" and "step".

        tell: is told each scenario's name before it runs.
        """
        return json.dumps(self._in_conversation() or self._in_scenarios(tell))

    def _in_conversation(self) -> dict[str, Any] | None:
        mine = self._record()
        reference = behaviour.rerun(mine)
        for fields, what in ((behaviour.FIELDS, "decide otherwise"), (BLOCKS, "take other blocks")):
            at = behaviour.first_differing_step(mine["steps"], reference["steps"], fields)
            if at is not None:
                said = f"In this conversation your parts {what} than the reference, first in step {at}."
                if fields is BLOCKS:
                    said += " Its decisions are the same, so this alone is no mistake."
                state = [behaviour.describe(each["steps"], at, fields) for each in (mine, reference)]
                return side_by_side(said, state, mine, reference, at)
        return None

    def _in_scenarios(self, tell: Callable[[str], object]) -> dict[str, Any]:
        try:
            found = next(behaviour.compare(self.parts, tell=tell), None)
        except Exception as error:
            said = "Every step of this conversation is the reference's. In a scenario of `lab diff` the engine stopped."
            return {"said": said, "state": self._explain(error)}
        if found is None:
            same = "Every step of this conversation is the reference's, and so are those of all"
            notes = " ".join(each.strip() for each in behaviour.idle_rules(self.parts))
            return {"said": f"{same} {behaviour.NUM_SCENARIOS} scenarios of `lab diff`. {notes}".strip()}
        said = "Every step of this conversation is the reference's. "
        said += f"In {found.scenario} of `lab diff` your parts decide otherwise, first in step {found.step}."
        mine, reference = behaviour.beside(self.parts, found.scenario)
        return side_by_side(said, [found.mine, found.reference], mine, reference, found.step)


def side_by_side(said: str, state: Sequence[str], mine: Any, reference: Any, step: int) -> dict[str, Any]:
    """A difference, as the page shows it."""
    lines = [f"{whose:11}{each or 'the rest'}" for whose, each in zip(("yours", "reference"), state, strict=True)]
    figures = [["yours", mine], ["reference", reference]]
    return {"said": said, "state": "\n".join(lines), "figures": figures, "step": step}
