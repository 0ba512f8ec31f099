"""What `lab run` shows of a phase beside answers: drafts and what became of them, masks and a stream, a kernel's time.

Whatever is shown happened in an engine that has the learner's parts in it, or in their kernel.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from labkit.compare.behaviour import Called
from labkit.kernels import in_c
from labkit.labs.graft import Part, grafted, ungrafted
from mini_vllm.frontend.tokenizer import TokenNames, reader_of
from mini_vllm.observe.listener import StepListener
from mini_vllm.observe.timeline import MARKS, drafts_of
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.request import Request
from mini_vllm.scheduler_interface import Step

MakeEngine = Callable[..., Any]  # an LLM with the options that are given
Trace = Mapping[str, Any]

QUESTION = "What is a KV block?"
REPEATS = (  # a text that goes on as it began
    "Prefill is the part of a request that computes the prompt. Prefill is the part of a request that computes "
    "the prompt. Prefill is"
)
REQUESTS = {
    "first": "the question",
    "again": "the same question once more: its answer stands in the prompt",
    "repeats": "a text that repeats",
}
DRAFTING = ("speculative", "draft_model")  # options of an engine that speculates
NUM_TOKENS = 120  # of an answer, at most
NUM_BLOCKS = 12  # so few that a request with drafts is preempted
TERMS = ("KV block", "block table", "prefill", "decode", "preemption", "prefix hit", "token budget")
SHOWN = 4  # allowed tokens of a mask, and pieces in a row that bring nothing
WIDTH = 40  # of what is held back


def called(parts: Sequence[Part], found: Collection[Called]) -> str:
    """Which of the learner's parts the engine called, and which not."""
    slots = [(part.lab.id, slot) for part in parts for slot, _ in part.replacements]
    ran = [f"{slot.name} of {lab_id}" for lab_id, slot in slots if (lab_id, slot) in found]
    idle = [f"{slot.name} of {lab_id}" for lab_id, slot in slots if (lab_id, slot) not in found]
    said = [f"Yours, called in this run: {', '.join(ran)}."] if ran else []
    return "\n".join([*said, *([f"Yours, not called in it: {', '.join(idle)}."] if idle else [])])


def watch(llm: Any) -> TraceRecorder:
    """A recorder of the engine's steps that keeps statistics, too, by the learner's part of 03.9 if it is in."""
    recorder = TraceRecorder(llm.engine.scheduler, stats=True)
    llm.engine.listeners.append(recorder)
    return recorder


# --- 05: drafts -------------------------------------------------------------------------------------------------------


def speculation(out: Console, make: MakeEngine, question: str | None, options: dict[str, Any]) -> Trace:
    """The same requests without drafts and with them: steps, tokens a step, and each draft, accepted or rejected."""
    options = options | ({} if question else {"num_kv_blocks": NUM_BLOCKS})
    plain, _ = talk(make(**{name: value for name, value in options.items() if name not in DRAFTING}), question)
    llm = make(**options)
    trace, texts = talk(llm, question)
    table = Table(box=None, pad_edge=False)
    heads = ("request", "output tokens", "steps without drafts", "with drafts", "tokens a step", "drafts", "accepted")
    for head in heads:
        table.add_column(head, justify="left" if head == "request" else "right")
    for name in REQUESTS:
        num_tokens, drafts = len(trace["outputs"][name]), [drafts_of(step, name) for step in steps_of(trace, name)]
        num_steps, num_drafts, num_right = len(drafts), sum(n for n, _ in drafts), sum(n for _, n in drafts)
        share = f"{num_right} ({num_right / num_drafts:.0%})" if num_drafts else "-"
        before = len(steps_of(plain, name))
        row = (num_tokens, before, num_steps, f"{num_tokens / max(num_steps, 1):.2f}", num_drafts, share)
        table.add_row(name, *map(str, row))
    for name, about in REQUESTS.items():
        out.print(f"{name}: {about}\n  {texts[name]}\n", markup=False)
    out.print(table)
    out.print("\n" + whether_same(plain, trace, is_drawn="draft_model" in options))
    out.print(f"The engine took {len(plain['steps'])} steps without drafts, and {len(trace['steps'])} with them.\n")
    draw_drafts(out, trace, TokenNames(reader_of(llm.engine.tokenizer)).shown_bytes)
    return trace


def whether_same(plain: Trace, trace: Trace, *, is_drawn: bool) -> str:
    """Whether drafts have changed a text, which they must not where tokens are the likeliest ones."""
    differing = [name for name in REQUESTS if plain["outputs"][name] != trace["outputs"][name]]
    if not differing:
        return "The tokens are the same with drafts and without."
    if is_drawn:
        return "Tokens are drawn at temperature 1, with drafts by other numbers: the texts differ, their odds do not."
    return f"WRONG: with drafts the tokens of {' and '.join(differing)} are other ones than without."


def talk(llm: Any, question: str | None) -> tuple[Trace, dict[str, str]]:
    """A question, the same once more behind its answer, and a text that repeats: what happened, and the texts."""
    from mini_vllm import SamplingParams

    is_drawn = llm.engine.config.speculative == "draft_model"
    params = SamplingParams(temperature=float(is_drawn), seed=0, max_tokens=NUM_TOKENS)
    engine, texts = llm.engine, dict.fromkeys(REQUESTS, "")
    recorder = watch(llm)
    asked = [{"role": "user", "content": QUESTION if question is None else question}]
    engine.add_request("first", llm.apply_chat_template(asked), params)
    while engine.has_unfinished_requests():
        for output in engine.step():
            texts[output.request_id] = output.outputs[0].text
            if output.finished and output.request_id == "first":
                answer = {"role": "assistant", "content": output.outputs[0].text}
                engine.add_request("again", llm.apply_chat_template([*asked, answer, *asked]), params)
                engine.add_request("repeats", REPEATS, params)
    return recorder.to_trace("lab run"), texts


def steps_of(trace: Trace, name: str) -> list[Trace]:
    """The steps that gave a request tokens."""
    return [step for step in trace["steps"] if step["sampled"].get(name)]


def draw_drafts(out: Console, trace: Trace, token_bytes: Callable[[int], bytes]) -> None:
    """A group of marks for each step of a request, and its text with what was drafted."""
    right, wrong, plain = (MARKS[mark].character for mark in ("accepted", "rejected", "decode"))
    for name in REQUESTS:
        groups, text, num_left = [], b"", len(trace["outputs"][name])
        for step in steps_of(trace, name):
            (num_drafts, num_right), tokens = drafts_of(step, name), step["sampled"][name][:num_left]
            num_left -= len(tokens)
            groups.append(right * num_right + wrong * (num_drafts - num_right) + plain)
            drafted = b"".join(map(token_bytes, tokens[:num_right]))
            refused = b"".join(map(token_bytes, step.get("spec", {}).get(name, ())[num_right:]))
            text += (b"[" + drafted + b"]" if drafted else b"") + (b"~" + refused + b"~" if refused else b"")
            text += b"".join(map(token_bytes, tokens[num_right:]))
        out.print(in_lines(out, " ".join(groups), f"{name:8} "), markup=False)
        out.print(in_lines(out, text.decode(errors="replace"), " " * 9) + "\n", markup=False)
    out.print(
        f"Each group is a step: {right} a draft accepted, {wrong} a draft rejected, {plain} the model's own token."
    )
    out.print("In the text: [drafts accepted], ~drafts rejected~.\n", markup=False)


def in_lines(out: Console, text: str, first: str) -> str:
    """A text that is as wide as the screen, behind a margin."""
    return fill(" ".join(text.split()), min(out.width, 100), initial_indent=first, subsequent_indent=" " * 9)


# --- 04: masks, and a stream ------------------------------------------------------------------------------------------


class Masks(StepListener):
    """How many tokens each mask of an engine allows, beside the token that came of it."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, list[int]]] = []  # the token, and the tokens that were allowed

    def after_update(
        self, step: Step, sampled_token_ids: Mapping[str, Sequence[int]], finished: Iterable[Request], **_: bool
    ) -> None:
        for name, masks in step.output.masks.items():
            for mask, token_id in zip(masks, sampled_token_ids.get(name, ()), strict=False):
                if mask is not None:
                    self.rows.append((token_id, allowed_by(mask)))


def allowed_by(mask: bytes) -> list[int]:
    """The tokens whose bit is set."""
    return [8 * place + bit for place, byte in enumerate(mask) for bit in range(8) if byte >> bit & 1]


def call_a_tool(out: Console, llm: Any, question: str) -> Trace:
    """A text that masks force to be one of a few, and then a call with it, which is found as its pieces come."""
    from mini_vllm import SamplingParams
    from mini_vllm.frontend.assistant_parser import AssistantForm, AssistantParser
    from mini_vllm.params import StructuredOutputs

    recorder, masks = watch(llm), Masks()
    llm.engine.listeners.append(masks)
    prompt = llm.apply_chat_template([{"role": "user", "content": question}])

    def pieces(*texts: str) -> list[str]:
        params = SamplingParams(temperature=0.0, max_tokens=200, structured=StructuredOutputs(choice=texts))
        return [delta.outputs[0].text for delta in llm.stream(prompt, params)]

    def call(name: str) -> str:
        return f"Wait.\n<tool_call>{json.dumps({'name': name, 'arguments': {'term': term}})}</tool_call>"

    term = "".join(pieces(*TERMS))
    out.print(f"{question}\n  one of {', '.join(TERMS)}:\n  {term}\n", markup=False)
    draw_masks(out, masks, reader_of(llm.engine.tokenizer).token_bytes, llm.engine.vocab_size)
    num_asked = len(masks.rows)
    out.print(f"The masks were asked {num_asked} times, once for each token.\n")
    out.print("A tool is called, define or explain. Each piece of the text goes through the parser:\n", markup=False)
    draw_stream(out, [*pieces(call("define"), call("explain")), None], AssistantParser(AssistantForm("hermes")))
    out.print(f"The masks were asked {len(masks.rows) - num_asked} times for the call.\n")
    return recorder.to_trace("lab run")


def draw_masks(out: Console, masks: Masks, token_bytes: Callable[[int], bytes], vocab_size: int) -> None:
    """A line for each token: how many were allowed in its place, and some of them."""
    table = Table(box=None, pad_edge=False)
    for head in ("token", f"allowed of {vocab_size:,}", "such as"):
        table.add_column(head)
    for token_id, allowed in masks.rows:
        texts = [repr(token_bytes(each).decode(errors="replace")) for each in allowed[:SHOWN]]
        some = ", ".join([*texts, *(["..."] if len(allowed) > SHOWN else [])])
        table.add_row(*map(Text, (repr(token_bytes(token_id).decode(errors="replace")), str(len(allowed)), some)))
    out.print(table)
    out.print()


def draw_stream(out: Console, pieces: Sequence[str | None], parser: Any) -> None:
    """A line for each piece: what it emitted, and what is held back since it may be a call. None: the end."""
    table, held, num_quiet = Table(box=None, pad_edge=False), "", 0
    for head in ("piece", "emitted", "held"):
        table.add_column(head, overflow="fold")
    for number, piece in enumerate(pieces):
        if piece == "":  # the token that ends the text
            continue
        delta = parser.finish() if piece is None else parser.feed(piece)
        held += piece or ""
        calls = [json.dumps(each["function"]) for each in delta.tool_calls]
        emitted = " ".join([*([repr(delta.content)] if delta.content else []), *calls])
        held = held[len(delta.content) :] if held.startswith(delta.content) and not calls else ""
        num_quiet = 0 if emitted else num_quiet + 1
        if num_quiet <= SHOWN or number == len(pieces) - 1:
            table.add_row(*map(Text, ("(the end)" if piece is None else repr(piece), emitted or "-", tail_of(held))))
        elif num_quiet == SHOWN + 1:
            table.add_row("...", "-", "...")
    out.print(table)
    out.print()


def tail_of(held: str) -> str:
    """What is held, or its end."""
    return "" if not held else repr(held) if len(held) <= WIDTH else "... " + repr(held[-WIDTH:])


# --- 01.9: a kernel ---------------------------------------------------------------------------------------------------


def kernel(out: Console, part: Part | None) -> None:
    """The time of a decode on the learner's kernel, beside the reference's and the time that reading alone takes."""
    with ungrafted():
        reference, floor = in_c.measure(in_c.decode_source()), in_c.measure(in_c.READER)
    rows = {"the reference": reference, "only to read the same bytes": floor}
    if part:
        with grafted([part]):
            rows = {"yours": in_c.measure(in_c.decode_source())} | rows
    out.print(f"A decode in C: {in_c.MEASURED}; {floor.num_bytes / 1e6:.0f} MB of keys and values, one thread.\n")
    table = Table(box=None, pad_edge=False)
    for head in ("01.9", "ms", "GB/s"):
        table.add_column(head, justify="left" if head == "01.9" else "right")
    for name, (seconds, num_bytes) in rows.items():
        table.add_row(name, f"{1e3 * seconds:.1f}", f"{num_bytes / seconds / 1e9:.1f}")
    out.print(table)
    out.print("The last line is the memory's floor: a decode has to read each key and value once.\n")
