"""A trace as text: requests downwards, steps to the right, one character for what a request did in
a step.

Pure functions of a trace (observe/trace.py, or one recorded from vLLM in traces/), so that the
command line, the labs and the book draw the same picture. Every mark is readable without colour,
and in ASCII where the output is not UTF-8.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from math import ceil
from typing import Any, NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from mini_vllm.observe.files import printable

Trace = Mapping[str, Any]
Record = Trace  # of a step


class Mark(NamedTuple):
    """How one kind of cell looks, and what it means."""

    character: str
    ascii: str
    style: str
    meaning: str


MARKS = {
    "prefill": Mark("█", "#", "cyan", "prefill chunk"),
    "hit": Mark("◆", "+", "bold green", "chunk after a prefix hit"),
    "recompute": Mark("▓", "%", "magenta", "chunk computed again"),
    "swapped": Mark("◀", "<", "bold green", "back from main memory"),
    "decode": Mark("▪", "o", "blue", "decode, one token"),
    "accepted": Mark("●", "*", "bold green", "drafts, all accepted"),
    "partly": Mark("◐", "~", "blue", "drafts, some accepted"),
    "rejected": Mark("○", "!", "red", "drafts, all rejected"),
    "idle": Mark("-", "-", "yellow", "running, not in this step"),
    "waiting": Mark("·", ".", "bright_black", "waiting"),
    "loading": Mark("◁", ":", "green", "waiting for a load"),
    "preempted": Mark("x", "x", "bold red", "preempted"),
}
CHUNKS = ("prefill", "hit", "recompute", "swapped")
LEVELS = " ▁▂▃▄▅▆▇█"
ASCII_LEVELS = " 123456789"
MAX_LABEL = 16


@dataclass(slots=True)
class RequestRow:
    """What a trace says of one request. marks: a key of MARKS per step, "" where the request was
    not there.
    """

    request_id: str
    num_prompt_tokens: int
    num_output_tokens: int
    num_cached_tokens: int = 0  # the prefix hit at first admission
    num_chunks: int = 0  # steps that computed more than the newest token
    num_preemptions: int = 0
    num_recomputed_tokens: int = 0
    finish_reason: str = ""
    marks: list[str] = field(default_factory=list)


def read_requests(trace: Trace) -> list[RequestRow]:
    """One row per request, in the trace's order, by following every counter through the steps."""
    rows = _empty_rows(trace)
    computed: dict[str, int] = {}  # of the running requests
    most_computed: dict[str, int] = {}  # by any run of the request, before a preemption too
    for record in trace["steps"]:
        admitted = dict(record.get("new", ())) | dict(record.get("resumed", ()))
        marks = dict.fromkeys(record.get("waiting", ()), "waiting")
        marks |= dict.fromkeys(record.get("loading", ()), "loading")
        for request_id in record.get("preempted", ()):
            marks[request_id] = "preempted"
            rows[request_id].num_preemptions += 1
            computed.pop(request_id, None)
        for request_id, num_cached in record.get("new", ()):
            rows[request_id].num_cached_tokens = num_cached
        computed.update(admitted)
        for request_id, n in record["sched"]:
            row, known = rows[request_id], most_computed.get(request_id, 0)
            start = record["computed"][request_id] if "computed" in record else computed[request_id]
            num_drafts, num_accepted = drafts_of(record, request_id)
            marks[request_id] = _mark_of(record, row, start, known, admitted.get(request_id, 0))
            row.num_chunks += marks[request_id] in CHUNKS
            row.num_recomputed_tokens += max(min(known, start + n) - start, 0)
            computed[request_id] = start + n - num_drafts + num_accepted
            most_computed[request_id] = max(known, computed[request_id])
        for request_id in record.get("running", computed):
            marks.setdefault(request_id, "idle")
        for request_id, reason in _endings(record):
            rows[request_id].finish_reason = reason
            computed.pop(request_id, None)
        for request_id, row in rows.items():
            row.marks.append(marks.get(request_id, ""))
    return list(rows.values())


def _empty_rows(trace: Trace) -> dict[str, RequestRow]:
    """What is known of the requests before the first step."""
    outputs = trace["outputs"]
    return {
        spec["id"]: RequestRow(spec["id"], len(spec["prompt"]), len(outputs.get(spec["id"], ())))
        for spec in trace["requests"]
    }


def drafts_of(record: Record, request_id: str) -> tuple[int, int]:
    """How many drafts of a request a step verifies, and how many of them are right."""
    num_drafts = len(record.get("spec", {}).get(request_id, ()))
    return num_drafts, max(
        min(num_drafts, len(record.get("sampled", {}).get(request_id, ())) - 1), 0
    )


def _mark_of(
    record: Record, row: RequestRow, start: int, most_computed: int, num_hit_tokens: int
) -> str:
    """What the request's tokens in this step are; start is the index of their first one."""
    swapped_in = {block for _, block in record.get("swapped_in", ())}
    if not swapped_in.isdisjoint(record.get("blocks", {}).get(row.request_id, ())):
        return "swapped"
    if num_hit_tokens:
        return "hit"
    if start < most_computed:
        return "recompute"
    if start < row.num_prompt_tokens:
        return "prefill"
    num_drafts, num_accepted = drafts_of(record, row.request_id)
    return (
        ("rejected", *["partly"] * (num_drafts - 1), "accepted")[num_accepted]
        if num_drafts
        else "decode"
    )


def _endings(record: Record) -> Iterator[tuple[str, str]]:
    for request_id, reason in record.get("finished", ()):
        yield request_id, reason or "stop"
    for request_id in (*record.get("aborted_before", ()), *record.get("aborted_during", ())):
        yield request_id, "abort"


def render_timeline(
    trace: Trace, *, width: int = 80, ascii_only: bool = False, max_bands: int = 3
) -> Text:
    """Draw the trace `width` characters wide: one band, or several below each other like the staves
    of a score.

    A band shows the requests that are alive in it, then the shares of the token budget and of the
    KV blocks that each step used. A run longer than max_bands is cut and says where. A legend of
    the marks that occur ends it.
    """
    rows, steps, config = read_requests(trace), trace["steps"], trace["config"]
    names = [_label(row.request_id) for row in rows]
    label_width = max(map(len, [*names, "KV blocks"])) + 1
    num_columns = max((width - label_width) // 10, 1) * 10
    shown = steps[: max_bands * num_columns]
    levels = ASCII_LEVELS if ascii_only else LEVELS
    gauges = {
        "tokens": _gauge(
            [
                sum(n for _, n in record["sched"]) / config["max_num_batched_tokens"]
                for record in shown
            ],
            levels,
        ),
        "KV blocks": _gauge(
            [num_used_blocks(trace, record) / (config["num_blocks"] - 1) for record in shown],
            levels,
        ),
    }
    text = Text(no_wrap=True)
    for start in range(0, len(shown), num_columns):
        end = min(start + num_columns, len(shown))
        ticks = "".join(f"{steps[i]['step']:<10}" for i in range(start, end, 10))
        text.append(f"{'step':<{label_width}}{ticks.rstrip()}\n", "bold")
        for name, row in zip(names, rows, strict=True):
            if any(row.marks[start:end]):
                text.append(f"{name:<{label_width}}")
                _append_marks(text, row.marks[start:end], ascii_only)
        for name, gauge in gauges.items():
            text.append(f"{name:<{label_width}}{gauge[start:end].rstrip()}\n", "bright_black")
        text.append("\n")
    if len(shown) < len(steps):
        text.append(
            f"Not shown: steps {steps[len(shown)]['step']} to {steps[-1]['step']}.\n\n", "yellow"
        )
    return text.append_text(
        _legend({mark for row in rows for mark in row.marks[: len(shown)]}, width, ascii_only)
    )


def _label(request_id: str) -> str:
    name = printable(request_id)
    return name if len(name) <= MAX_LABEL else f"{name[: MAX_LABEL - 3]}..."


def _append_marks(text: Text, marks: list[str], ascii_only: bool) -> None:
    for name, group in groupby(marks):
        mark = MARKS.get(name, Mark(" ", " ", "", ""))
        text.append((mark.ascii if ascii_only else mark.character) * len(list(group)), mark.style)
    text.rstrip()
    text.append("\n")


def _gauge(shares: list[float], levels: str) -> str:
    """One character per share: a blank for nothing, the last level for all."""
    return "".join(levels[ceil(share * (len(levels) - 1))] for share in shares)


def _legend(used: set[str], width: int, ascii_only: bool) -> Text:
    """The marks in use, and what the two gauges are."""
    entries = [
        (mark.ascii if ascii_only else mark.character, mark)
        for name, mark in MARKS.items()
        if name in used
    ]
    text, column = Text(no_wrap=True), 0
    for character, mark in entries:
        size = len(mark.meaning) + 5
        separator = "" if column == 0 else "   " if column + size <= width else "\n"
        column = size if separator == "\n" else column + size
        text.append(separator).append(character, mark.style).append(f" {mark.meaning}")
    return text.append("\ntokens: share of the budget used; KV blocks: share of the cache in use")


def num_used_blocks(trace: Trace, record: Record) -> int:
    """How many KV blocks were held while the step ran; the null block does not count."""
    return int(trace["config"]["num_blocks"] - 1 - record["free_sched"])


def render_requests(trace: Trace) -> Table:
    """One line per request: where its tokens came from, and how it ended."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("request", no_wrap=True)
    for name in (
        "prompt\ntokens",
        "from prefix\ncache",
        "prefill\nchunks",
        "output\ntokens",
        "preempted\n(times)",
    ):
        table.add_column(name, justify="right")
    table.add_column("finish\nreason")
    for row in read_requests(trace):
        counts = (
            row.num_prompt_tokens,
            row.num_cached_tokens,
            row.num_chunks,
            row.num_output_tokens,
        )
        preempted = Text(str(row.num_preemptions), "red" if row.num_preemptions else "")
        table.add_row(
            Text(printable(row.request_id)), *map(str, counts), preempted, row.finish_reason or "-"
        )
    return table


def render_totals(trace: Trace, *, ascii_only: bool = False) -> Text:
    """The run in five lines, and one more about drafts if there are any."""
    totals, budget = trace["totals"], trace["config"]["max_num_batched_tokens"]
    num_steps, num_tokens = totals["steps"], totals["scheduled_tokens"]
    num_saved = totals["prefix_hits"] + totals["preempted_hits"]
    num_again = sum(row.num_recomputed_tokens for row in read_requests(trace))
    num_blocks = trace["config"]["num_blocks"] - 1
    peak = max((num_used_blocks(trace, record) for record in trace["steps"]), default=0)
    filled = round(20 * peak / num_blocks)
    drafts = [
        drafts_of(record, request_id)
        for record in trace["steps"]
        for request_id in record.get("spec", ())
    ]
    num_drafts, num_accepted = (sum(counts) for counts in zip((0, 0), *drafts, strict=True))
    full, empty = ("#", ".") if ascii_only else ("█", "░")
    lines = {
        "steps": f"{num_steps}",
        "tokens "
        "computed": f"{num_tokens} ({num_tokens / max(num_steps, 1):.1f} per step; the budget is "
        f"{budget})",
        "saved by the prefix "
        "cache": f"{num_saved} tokens ({num_saved / max(num_saved + num_tokens, 1):.0%} of all)",
        "preemptions": f"{totals['preemptions']} ({num_again} tokens computed again)",
        "drafts": f"{num_drafts}, of which {num_accepted} were accepted "
        f"({num_accepted / max(num_drafts, 1):.0%})",
        "peak KV cache "
        "use": f"{full * filled}{empty * (20 - filled)} {peak} of {num_blocks} blocks",
    }
    if not num_drafts:
        del lines["drafts"]
    return Text("\n").join(
        Text.assemble((f"{name:<26}", "bold"), value) for name, value in lines.items()
    )
