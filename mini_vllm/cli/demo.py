"""mini-vllm demo: six questions at once, the text as it streams, and then what the scheduler did.

Everything that is printed comes from a real run of the bundled model. The defaults are small on
purpose: prompts are cut into chunks, blocks are shared, and memory runs out, all within some
hundred steps.
"""

import time
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mini_vllm.cli.common import console, is_ascii_only, load_llm, option
from mini_vllm.cli.trace import show_trace
from mini_vllm.config import EngineConfig
from mini_vllm.observe.timeline import read_requests, render_timeline
from mini_vllm.observe.trace import TraceRecorder
from mini_vllm.params import SamplingParams
from mini_vllm.policies.registry import SCHEDULERS

if TYPE_CHECKING:
    from mini_vllm import LLM

Message = dict[str, str]

# The system prompt that the bundled model was trained with (tools/train_tiny).
SYSTEM_PROMPT = (
    "You are the assistant of mini_vllm, a small inference engine for language models. "
    "Answer each question with one entry of the glossary, in plain words, "
    "and say so when the question is about anything else."
)
BENS_CHAT = (  # what was said before ben's question
    "What is prefill?",
    "Prefill is the part of a request that computes the prompt. Many tokens go through the model "
    "together, so it is "
    "usually limited by arithmetic, and it ends when the first output token is sampled.",
    "What is decode?",
    "Decode is the part of a request that writes the output, one new token per step. Each step "
    "reads all the weights "
    "to compute very few tokens, so decode is usually limited by memory bandwidth.",
)
QUESTIONS = (  # request id, the step in which it is asked, question, remark
    ("ann", 0, "What is a KV block?", ""),
    ("ben", 0, "What is chunked prefill?", "the third question of a conversation"),
    ("cleo", 0, "What is a prefix hit?", ""),
    ("dan", 0, "What is preemption?", ""),
    ("eve", 8, "What is the token budget?", "asked 8 steps later"),
)
FOLLOW_UP = ("ann-2", "What is a block table?", "ann asks on when she has her answer")

WHERE_NEXT = """\
[cyan]mini-vllm demo --budget 16[/]         or --blocks 60, or --scheduler prefill_first
[cyan]mini-vllm chat[/]                     ask it yourself
[cyan]mini-vllm trace "What is a step?"[/]  this picture of your own prompts
[cyan]lab watch 03.1[/]                     your first lab (docs/first-lab.md)
[cyan]docs/glossary.md[/]                   every word used above
[cyan]mini_vllm/[/]                         the engine: read request.py, block_pool.py,
                                   kv_cache.py, scheduler_interface.py, scheduler.py,
                                   engine/core.py, in this order"""


class Demo:
    """The questions on their way through an engine: conversations, answers so far, and the
    trace.
    """

    def __init__(self, llm: "LLM") -> None:
        self.llm = llm
        self.recorder = TraceRecorder(llm.engine.scheduler)
        llm.engine.listeners.append(self.recorder)
        self.conversations: dict[str, list[Message]] = {}
        self.answers: dict[str, str] = {}
        self.finished: set[str] = set()

    def ask(self, request_id: str, messages: list[Message]) -> None:
        prompt = self.llm.apply_chat_template(messages)
        self.llm.engine.add_request(
            request_id, prompt, SamplingParams(temperature=0.0, max_tokens=120)
        )
        self.conversations[request_id], self.answers[request_id] = messages, ""

    def steps(self) -> Iterator[None]:
        """Ask what is due and take one step, until every question has its answer."""
        for step in count():
            for request_id, due, question, _ in QUESTIONS:
                if due == step:
                    said = (*BENS_CHAT, question) if request_id == "ben" else (question,)
                    turns = [
                        message("assistant" if i % 2 else "user", text)
                        for i, text in enumerate(said)
                    ]
                    self.ask(request_id, [message("system", SYSTEM_PROMPT), *turns])
            for output in self.llm.engine.step():
                self.answers[output.request_id] = output.outputs[0].text
                if output.finished:
                    self.finished.add(output.request_id)
            if "ann" in self.finished and "ann-2" not in self.answers:
                answered = [*self.conversations["ann"], message("assistant", self.answers["ann"])]
                self.ask("ann-2", [*answered, message("user", FOLLOW_UP[1])])
            yield
            if not self.llm.engine.has_unfinished_requests():
                return

    def live_view(self, width: int) -> RenderableType:
        """The timeline as far as it goes, and the ends of the texts that are being written."""
        tails = Table.grid(padding=(0, 2))
        for request_id, text in self.answers.items():
            if request_id not in self.finished:
                tails.add_row(
                    Text(request_id, "cyan"), Text(text.replace("\n", " ")[-max(width - 10, 10) :])
                )
        picture = render_timeline(
            self.recorder.to_trace("demo"), width=width, ascii_only=is_ascii_only(console())
        )
        return Group(picture, "", tails)


def message(role: str, content: str) -> Message:
    """A message of a conversation."""
    return {"role": role, "content": content}


def demo(
    budget: int = option(48, "Tokens per step (max_num_batched_tokens).", min=1),
    blocks: int = option(30, "KV blocks, the null block included (num_kv_blocks).", min=2),
    block_size: int = option(16, "Tokens per KV block.", min=1),
    no_prefix_caching: bool = option(False, "Share no blocks.", "--no-prefix-caching"),
    scheduler: str = option("v1", f"{', '.join(SCHEDULERS)}."),
    pace: float = option(0.04, "On a terminal, the least seconds that a step is shown.", min=0),
) -> None:
    """Six questions at once, and what the scheduler did.

    The bundled model answers them on the CPU. Change an option and compare: the steps change, the
    answers never do.
    """
    config = EngineConfig(
        "tiny",
        device="cpu",
        dtype="float32",
        block_size=block_size,
        num_kv_blocks=blocks,
        max_num_batched_tokens=budget,
        enable_prefix_caching=not no_prefix_caching,
        scheduler=scheduler,
    )
    screen = console()
    title(screen, "Six questions at once")
    screen.print(
        "The bundled model has 2 M parameters and knows docs/glossary.md, nothing else. To make it "
        f"interesting, its KV cache has only {blocks - 1} blocks of {block_size} tokens, and a "
        f"step computes at most {budget} tokens.\n"
    )
    run = Demo(load_llm(config))
    screen.print()
    seconds = stream(screen, run, pace)
    remarks = {request_id: remark for request_id, *_, remark in (*QUESTIONS, FOLLOW_UP)}
    for request_id, text in run.answers.items():
        question, remark = run.conversations[request_id][-1]["content"], remarks[request_id]
        screen.print(
            Text.assemble(
                (f"{request_id}: ", "cyan"), (question, "bold"), (remark and f"  ({remark})", "dim")
            )
        )
        screen.print(Padding(Text(text.strip()), (0, 0, 1, 2)))
    record = run.recorder.to_trace("demo")
    title(screen, "What the scheduler did")
    show_trace(screen, record)
    title(screen, "What to see in it")
    for note in notes(record):
        screen.print(f"- {note}")
    num_output = sum(map(len, record["outputs"].values()))
    screen.print(
        f"- The engine wrote {num_output} tokens in {len(record['steps'])} steps and {seconds:.1f} "
        "s."
    )
    title(screen, "Where to go next")
    screen.print(WHERE_NEXT)


def title(screen: Console, text: str) -> None:
    """A heading with a rule."""
    screen.print()
    screen.rule(f"[bold]{text}", align="left", characters="-" if is_ascii_only(screen) else "─")
    screen.print()


def stream(screen: Console, run: Demo, pace: float) -> float:
    """Take all steps, on a terminal with the texts as they grow; returns the seconds that the
    engine took.
    """
    seconds = 0.0
    with Live(console=screen, auto_refresh=False, transient=True) as live:
        began = time.perf_counter()
        for _ in run.steps():
            took = time.perf_counter() - began
            seconds += took
            if screen.is_terminal:
                live.update(run.live_view(screen.width), refresh=True)
                time.sleep(max(pace - took, 0))
            began = time.perf_counter()
    return seconds


def notes(record: dict[str, Any]) -> Iterator[str]:
    """What happened in this run, in sentences with its own numbers."""
    rows = read_requests(record)
    longest = max(rows, key=lambda row: row.num_prompt_tokens - row.num_cached_tokens)
    num_tokens = longest.num_prompt_tokens - longest.num_cached_tokens
    before = longest.marks[: longest.marks.index("decode")]
    num_steps = before.count("prefill") + before.count("hit")
    yield (
        f"Chunked prefill: {longest.request_id} had {num_tokens} prompt tokens to compute. The "
        f"budget spread them over {num_steps} steps, in which others could go on."
    )
    luckiest = max(rows, key=lambda row: row.num_cached_tokens)
    yield (
        f"Prefix cache: {luckiest.request_id} found {luckiest.num_cached_tokens} of its "
        f"{luckiest.num_prompt_tokens} prompt tokens, of requests that began with the same text."
        if luckiest.num_cached_tokens
        else "Prefix cache: no hit, so every request computed the shared system prompt itself."
    )
    victims = [row for row in rows if row.num_preemptions]
    for row in victims:
        left = row.marks.index("preempted")
        back = next(i for i, mark in enumerate(row.marks) if i > left and mark != "waiting")
        yield (
            f"Preemption: in step {left} no block was free, and {row.request_id}, the last one "
            f"admitted, lost its own. In step {back} it came back, and {row.num_recomputed_tokens} "
            "tokens were computed again."
        )
    if not victims:
        yield "Preemption: none, there were blocks for all requests. Try fewer with --blocks."
