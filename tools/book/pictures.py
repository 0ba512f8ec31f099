"""The drawn pictures of the book: `python tools/book/pictures.py [--check]`.

A picture is a function here; its numbers are computed, or read from the traces of docs/figures/ and from the tables of
benchmarks/results/. --check writes nothing; exit status 1 if a picture is not what its function draws.
"""

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.book.drawing import (  # noqa: E402
    BLUE,
    GREEN,
    INK,
    LINE,
    MUTED,
    ORANGE,
    PALE,
    PAPER,
    WHITE,
    Axis,
    Drawing,
    Point,
)

DOCS = ROOT / "docs"
PHASE_1, PHASE_2, PHASE_3 = "phase-01-paged-kv", "phase-02-kv-manager", "phase-03-continuous-batching-scheduler"
PHASE_5 = "phase-05-speculative-decoding"
Cells = list[dict[str, str]]
LIKING = (3, 2, 5, 3, 4, 6, 0, 2, 9, 7)  # logits of the cell "mask" in docs/serving.md


# --- the card of the site -----------------------------------------------------------------------------------------


def card() -> Drawing:
    """What a link to the site shows. docs/assets/card.png is this picture as Chromium draws it, 1200 x 630."""
    d = Drawing(1200, 630, "mini_vllm", "The name of the course, and two rows of steps in the manner of its figures.")
    d.rect(0, 0, 1200, 630, "#132433", "none")
    d.text(80, 190, "mini_vllm", size=104, bold=True, fill=WHITE)
    d.text(80, 258, "How an LLM inference engine works,", size=42, fill="#c3dafe")
    d.text(80, 312, "learned by building one", size=42, fill="#c3dafe")
    trace = json.loads((DOCS / "figures" / "p3-four-v1.json").read_text(encoding="utf-8"))
    for i, request in enumerate(trace["requests"]):
        for step in trace["steps"]:
            if tokens := dict(step["sched"]).get(request["id"]):
                x, y = 80 + 74 * step["step"], 372 + 34 * i
                prefill = step["computed"][request["id"]] < len(request["prompt"])
                d.rect(x, y, 68, 26, "#ffb866" if prefill else "#5fc7e4", "none")
                if prefill:
                    d.text(x + 34, y + 20, str(tokens), size=20, anchor="middle", bold=True)
    return d


# --- phase 1 ------------------------------------------------------------------------------------------------------


def address() -> Drawing:
    """A position, its entry in the block table, its slot and its bytes."""
    block_size, table, position, bytes_of_a_key = 4, [3, 6, 2], 6, 2 * 32 * 2
    column, offset = divmod(position, block_size)
    slot = table[column] * block_size + offset
    d = Drawing(
        760,
        362,
        "What a block table does to an address",
        f"Position {position} is split by the block size {block_size} into column {column}, offset {offset}. Only the "
        f"column goes through the block table {table}, which has block {table[column]} there. Both together make "
        f"slot {slot}, which begins at byte {slot * bytes_of_a_key:,} of the layer's key cache.",
    )
    d.text(24, 34, "The position is split; only its column goes through the table", bold=True)
    d.box(24, 60, 150, 44, f"position {position}", fill=PALE)
    d.arrow((174, 72), (250, 72), label="// 4")
    d.box(250, 60, 110, 24, f"column {column}", fill=BLUE)
    d.arrow((99, 104), (99, 142), (250, 142), label="% 4", at=(112, 132))
    d.box(250, 130, 110, 24, f"offset {offset}", fill=ORANGE)
    d.text(440, 52, "block table of b", size=13, fill=MUTED)
    for i, block in enumerate(table):
        d.box(440 + 52 * i, 60, 52, 30, str(block), fill=BLUE if i == column else WHITE)
        d.text(466 + 52 * i, 105, str(i), size=12, anchor="middle", fill=MUTED)
    d.arrow((360, 72), (430, 72))
    d.arrow((518, 110), (518, 130), label=f"block {table[column]}", at=(528, 125))
    d.arrow((360, 142), (430, 142))
    d.box(440, 131, 296, 24, f"slot = {table[column]} * {block_size} + {offset} = {slot}", fill=PALE)
    d.text(24, 206, "The key cache of a layer, slot by slot", bold=True)
    width = 712 / 36
    for i in range(36):
        here = i // block_size == table[column]
        d.rect(24 + i * width, 222, width, 30, ORANGE if i == slot else "#9cc3ff" if here else WHITE, LINE)
    for block in range(9):
        x = 24 + block * block_size * width
        d.line([(x, 216), (x, 258)])
        d.text(x + 2 * width, 276, f"block {block}", size=12, anchor="middle", fill=MUTED)
    d.line([(736, 216), (736, 258)])
    d.arrow((588, 155), (588, 182), (24 + (slot + 0.5) * width, 182), (24 + (slot + 0.5) * width, 220))
    key = f"A key of the bundled model takes 2 KV heads x 32 numbers x 2 bytes = {bytes_of_a_key} bytes in each layer,"
    d.text(24, 308, key, size=13)
    d.text(24, 326, f"so slot {slot} begins at byte {slot * bytes_of_a_key:,} of this layer's key cache.", size=13)
    d.text(24, 344, "The next token goes to slot 27. The one after it opens the next column: block 2.", size=13)
    return d


def online_softmax() -> Drawing:
    """The table of the chapter: scores 0, ln 4 and ln 2, values 7, 14 and 21."""
    exponentials, values = [1, 4, 2], [7, 14, 21]
    d = Drawing(
        760,
        372,
        "Online softmax: what was summed shrinks when a larger score comes",
        "Three panels. After the first score the only weight is 1. The second score is larger, so the first weight is "
        "multiplied by a quarter and the new one is 1. The third score is smaller and gets the weight one half; "
        "nothing is rescaled.",
    )
    d.text(24, 34, "Weights are relative to the largest score so far", bold=True)
    names, maximum = ["0", "ln 4", "ln 2"], 0
    for i in range(3):
        before, maximum = maximum, max(exponentials[: i + 1])
        x = 24 + 248 * i
        d.rect(x, 52, 216, 296, WHITE, LINE)
        d.text(x + 14, 76, f"score {i + 1} is {names[i]}", bold=True)
        d.text(x + 14, 96, f"m = {'0' if maximum == 1 else 'ln 4'}", size=13, fill=MUTED)
        if i:
            factor = before / maximum
            d.arrow((x - 32, 200), (x - 2, 200))
            d.text(x - 17, 190, "×¼" if factor == 0.25 else "×1", size=13, anchor="middle", bold=True)
        for j in range(i + 1):
            weight = exponentials[j] / maximum
            height = 120 * weight
            d.rect(x + 24 + 58 * j, 244 - height, 44, height, ORANGE if j == i else "#9cc3ff")
            d.text(x + 46 + 58 * j, 238 - height, fraction(weight), size=13, anchor="middle")
            d.text(x + 46 + 58 * j, 262, f"v = {values[j]}", size=12, anchor="middle", fill=MUTED)
        d.line([(x + 14, 244), (x + 202, 244)])
        weights = [exponentials[j] / maximum for j in range(i + 1)]
        total, summed = sum(weights), sum(w * v for w, v in zip(weights, values, strict=False))
        d.text(x + 14, 294, f"l = {fraction(total)}", size=13)
        d.text(x + 14, 314, f"o = {fraction(summed)}", size=13)
        d.text(x + 14, 336, f"o / l = {summed / total:g}", bold=True)
    return d


def fraction(value: float) -> str:
    """Quarters as fractions: 0.25 is 1/4, 1.75 is 7/4."""
    for divisor in (1, 2, 4):
        if (value * divisor).is_integer():
            return f"{value * divisor:g}" + (f"/{divisor}" if divisor > 1 else "")
    return f"{value:g}"


def grid() -> Drawing:
    """The launch of lab 01.4's contract: three tokens of 6 numbers, programs of 8 lanes, and where the rows go."""
    slots, row, block, num_slots = [2, -1, 5], 6, 8, 8
    d = Drawing(
        760,
        380,
        "A Triton grid over a tensor",
        "Three programs, one for each row of the tensor key. A program has 8 lanes for the 6 numbers of a row, and the "
        "mask switches two lanes off. Program 0 writes slot 2 of the cache and program 2 writes slot 5. Program 1 has "
        "slot -1 and writes nothing.",
    )
    d.text(24, 34, "Grid (3,): three programs run the same code, each with its own number", bold=True)
    d.text(150, 64, "key [T, 2, 3]: a token's 6 numbers side by side", size=13, fill=MUTED)
    d.text(560, 64, "key_cache, slot by slot", size=13, fill=MUTED)
    for slot in range(num_slots):
        y = 76 + 30 * slot
        written = slot in slots
        d.text(548, y + 19, str(slot), size=12, anchor="end", fill=MUTED)
        for i in range(row):
            d.rect(560 + 28 * i, y, 28, 26, ORANGE if written else WHITE, LINE)
    for token, slot in enumerate(slots):
        y = 84 + 84 * token
        d.box(24, y, 104, 40, "program", f"program_id {token}", fill=PALE if slot < 0 else "#9cc3ff", size=12)
        for lane in range(block):
            masked = lane >= row
            d.rect(150 + 28 * lane, y + 6, 28, 28, PAPER if masked or slot < 0 else ORANGE, LINE)
            if masked:
                d.text(164 + 28 * lane, y + 25, "off", size=10, anchor="middle", fill=MUTED)
        d.text(150, y + 52, f"slot_mapping[{token}] = {slot}", size=12, fill=MUTED)
        if slot >= 0:
            d.arrow((376, y + 20), (440, y + 20), (480, 89 + 30 * slot), (530, 89 + 30 * slot))
        else:
            d.text(384, y + 25, "padding: stores nothing", size=12, fill=MUTED)
    d.text(24, 346, "lanes = arange(0, BLOCK), BLOCK = 8, the power of two that holds ROW = 6", size=13)
    d.text(24, 366, "mask = lanes < ROW: without it lanes 6 and 7 write into the next slot", size=13)
    return d


def step_of_vllm() -> Drawing:
    """The chain of the deep dive, in two rows."""
    boxes = [
        ("_update_states", "new block ids", "into rows of the table"),
        ("_prepare_inputs", "table to the GPU, positions,", "slot mapping"),
        ("_determine_batch_execution_", "and_padding: which graph,", "how many rows"),
        ("_get_slot_mappings", "-1 for the padding"),
        ("_build_attention_metadata", "one object", "for all layers"),
        ("each layer", "do_kv_cache_update,", "then forward"),
    ]
    d = Drawing(
        760,
        236,
        "One step of vLLM's model runner",
        "Six stages in order: " + "; ".join(": ".join([box[0], " ".join(box[1:])]) for box in boxes) + ".",
    )
    for i, lines in enumerate(boxes):
        x, y = 24 + 248 * (i % 3), 24 + 112 * (i // 3)
        d.box(x, y, 216, 76, *lines, fill="#9cc3ff" if i == 5 else WHITE, size=12)
        if i % 3 < 2:
            d.arrow((x + 216, y + 38), (x + 246, y + 38))
    d.arrow((628, 100), (628, 118), (132, 118), (132, 134))
    return d


# --- phase 2 ------------------------------------------------------------------------------------------------------


def classes() -> Drawing:
    d = Drawing(
        760,
        206,
        "Which class asks which",
        "The Scheduler asks the KVCacheManager, which asks the KVCacheCoordinator. The coordinator asks a manager "
        "for each kind of layer, FullAttentionManager and SlidingWindowManager. Both ask one BlockPool, which has the "
        "FreeKVCacheBlockQueue and the BlockHashToBlockMap.",
    )
    d.box(16, 84, 84, 36, "Scheduler", size=12)
    d.box(124, 84, 122, 36, "KVCacheManager", size=12)
    d.box(270, 84, 138, 36, "KVCacheCoordinator", size=12)
    d.box(430, 30, 152, 36, "FullAttentionManager", size=12, fill="#9cc3ff")
    d.box(430, 138, 152, 36, "SlidingWindowManager", size=12, fill="#9cc3ff")
    d.box(556, 84, 80, 36, "BlockPool", size=12)
    d.box(596, 20, 152, 32, "FreeKVCacheBlockQueue", size=11)
    d.box(596, 154, 152, 32, "BlockHashToBlockMap", size=11)
    d.arrow((100, 102), (122, 102))
    d.arrow((246, 102), (268, 102))
    d.arrow((408, 94), (418, 48), (428, 48))
    d.arrow((408, 110), (418, 156), (428, 156))
    d.arrow((506, 66), (506, 98), (554, 98))
    d.arrow((506, 138), (506, 106), (554, 106))
    d.arrow((636, 96), (672, 96), (672, 54))
    d.arrow((636, 108), (672, 108), (672, 152))
    return d


# --- phase 3 ------------------------------------------------------------------------------------------------------


def queues() -> Drawing:
    d = Drawing(
        760,
        170,
        "The two queues of the scheduler",
        "add_request puts a request into waiting. It is admitted to running, and goes back to waiting when it is "
        "preempted. It leaves when it ends or is aborted.",
    )
    d.box(24, 56, 120, 40, "add_request", fill=PALE)
    d.box(234, 56, 120, 40, "waiting")
    d.box(464, 56, 120, 40, "running", fill="#9cc3ff")
    d.box(656, 56, 80, 40, "gone", fill=PALE)
    d.arrow((144, 76), (232, 76))
    d.arrow((354, 66), (462, 66), label="admitted")
    d.arrow((464, 86), (356, 86))
    d.text(409, 104, "preempted", size=13, anchor="middle", fill=MUTED)
    d.arrow((584, 76), (654, 76), label="ended")
    d.arrow((294, 96), (294, 138), (696, 138), (696, 98))
    d.text(495, 131, "aborted", size=13, anchor="middle", fill=MUTED)
    d.arrow((524, 56), (524, 28), (696, 28), (696, 54), label="aborted", at=(586, 22))
    return d


def queues_of_groups() -> Drawing:
    d = Drawing(
        760,
        190,
        "The three queues of sequence groups",
        "A prompt that fits goes from waiting to running. A victim with one sequence goes back to waiting; a victim "
        "with several goes to swapped, and from there back to running.",
    )
    d.box(24, 36, 120, 40, "add_request", fill=PALE)
    d.box(214, 36, 120, 40, "waiting")
    d.box(476, 36, 120, 40, "running", fill="#9cc3ff")
    d.box(476, 128, 120, 40, "swapped", fill=ORANGE)
    d.box(660, 36, 80, 40, "gone", fill=PALE)
    d.arrow((144, 56), (212, 56))
    d.arrow((334, 46), (474, 46), label="prompt fits")
    d.arrow((476, 66), (336, 66))
    d.text(405, 84, "victim, one sequence", size=13, anchor="middle", fill=MUTED)
    d.arrow((506, 76), (506, 126))
    d.text(496, 108, "victim, several sequences", size=13, anchor="end", fill=MUTED)
    d.arrow((566, 128), (566, 78), label="blocks fit again", at=(576, 108))
    d.arrow((596, 56), (658, 56))
    return d


def four_schedulers() -> Drawing:
    """The traces p3-four-*.json below one another, on one axis of steps."""
    runs = [
        ("v1", "v1: the running requests first, then what is left of the budget"),
        ("warm-first", "warm_first: a score decides, and it grows while a request waits"),
        ("prefill-first", "prefill_first: a step computes prompts or decodes"),
        ("sequence-group", "sequence_group: the same steps while memory is enough"),
    ]
    traces = {name: json.loads((DOCS / "figures" / f"p3-four-{name}.json").read_text()) for name, _ in runs}
    most = max(len(trace["steps"]) for trace in traces.values())
    ends = {name: len(trace["steps"]) for name, trace in traces.items()}
    d = Drawing(
        760,
        632,
        "Four schedulers on one axis of steps",
        "The same six requests. "
        + " ".join(f"{name.replace('-', '_')} takes {ends[name]} steps." for name in ends)
        + " In the last two, requests a and b stand still while prompts are computed.",
    )
    left, width, row = 60, 33.0, 17
    for lane, (name, title) in enumerate(runs):
        trace, top = traces[name], 40 + 142 * lane
        d.text(24, top - 12, title, bold=True, size=13)
        begins: dict[str, int] = {}
        ended: dict[str, int] = {}
        for step in trace["steps"]:
            for request_id, _ in step["sched"]:
                begins.setdefault(request_id, step["step"])
                ended[request_id] = step["step"]
        for i, request in enumerate(trace["requests"]):
            request_id, y = request["id"], top + i * row
            d.text(left - 14, y + 13, request_id, size=12, anchor="end")
            for step in trace["steps"]:
                at, tokens = step["step"], dict(step["sched"]).get(request_id, 0)
                x = left + at * width
                if tokens:
                    prefill = step["computed"][request_id] < len(request["prompt"])
                    d.rect(x, y, width - 2, row - 3, BLUE if prefill else "#9cc3ff", "none")
                    if prefill:
                        d.text(x + width / 2 - 1, y + 11, str(tokens), size=11, anchor="middle", fill=WHITE)
                elif begins[request_id] < at < ended[request_id]:
                    d.rect(x, y + 5, width - 2, 4, ORANGE, "none")
        end = left + ends[name] * width
        d.line([(end, top - 4), (end, top + 6 * row + 2)], INK, 1.5, "4 3")
        d.text(end + 6, top + 6 * row - 4, f"{ends[name]} steps", size=12, bold=True)
    for at in range(0, most + 1, 5):
        d.text(left + at * width, 594, str(at), size=12, anchor="middle", fill=MUTED)
        for lane in range(4):
            d.line([(left + at * width, 40 + 142 * lane - 4), (left + at * width, 40 + 142 * lane + 104)], LINE, 0.5)
    d.text(24, 594, "step", size=12, fill=MUTED)
    for x, fill, words in [
        (60, BLUE, "prefill, with its number of tokens"),
        (310, "#9cc3ff", "decode, one token"),
        (470, ORANGE, "admitted, but not in this step"),
    ]:
        d.rect(x, 606, 20, 12, fill, "none")
        d.text(x + 27, 617, words, size=12)
    return d


# --- serving ------------------------------------------------------------------------------------------------------


def path_of_a_request() -> Drawing:
    """There above, back below."""
    d = Drawing(
        760,
        300,
        "The way of a request through the server",
        "In the front process a request passes HTTP and its fields, the chat template and the tokenizer, the limit of "
        "the queue and the registration. An Add goes to the engine process, whose loop takes commands, runs one step "
        "and sends one message. Back in the front, text is made and stop strings are found, the stream merges what is "
        "unread, and an event goes to the client.",
    )
    d.rect(92, 30, 428, 240, PALE, LINE)
    d.text(104, 50, "front process: one event loop", size=13, bold=True)
    d.rect(590, 30, 158, 240, PALE, LINE)
    d.text(602, 50, "engine process", size=13, bold=True)
    d.box(12, 66, 62, 184, "client")
    top = [
        ("HTTP, fields", "protocol.py"),
        ("template, ids", "input_processor.py"),
        ("queue, register", "async_engine.py"),
    ]
    bottom = [("event", "answers.py"), ("one delta", "async_engine.py"), ("text, stop strings", "output_processor.py")]
    for y, boxes, fill in ((66, top, WHITE), (190, bottom, "#9cc3ff")):
        for i, lines in enumerate(boxes):
            d.box(104 + 138 * i, y, 126, 60, *lines, fill=fill, size=12)
    d.box(602, 66, 134, 44, "all commands", "take()", size=12)
    d.box(602, 128, 134, 64, "one step", "schedule(), model,", "update", fill=ORANGE, size=12)
    d.box(602, 210, 134, 40, "one message", "send()", fill="#9cc3ff", size=12)
    for x in (74, 230, 368):
        d.arrow((x, 96), (x + (30 if x == 74 else 12), 96))
        d.arrow((x + (30 if x == 74 else 12), 220), (x, 220))
    d.arrow((506, 88), (602, 88))
    d.text(555, 80, "Add, Finish", size=12, anchor="middle", fill=MUTED)
    d.arrow((602, 230), (506, 230))
    d.text(555, 222, "StepDone", size=12, anchor="middle", fill=MUTED)
    d.arrow((669, 110), (669, 128))
    d.arrow((669, 192), (669, 210))
    d.text(555, 160, "msgpack", size=12, anchor="middle", fill=MUTED)
    d.text(
        104,
        290,
        "There above, back below. A step never waits for a socket, and a socket never waits for a step.",
        size=12,
    )
    return d


def times_of_requests() -> Drawing:
    """What the metrics count, of two requests of the recorded run."""
    times = json.loads((DOCS / "figures" / "serving.json").read_text(encoding="utf-8"))["times"]
    d = Drawing(
        760,
        344,
        "The times of two requests of the recorded run",
        "; ".join(
            f"{name} arrives at {times[name]['arrival']}, is first in a step at {times[name]['scheduled']} and gets "
            f"its tokens at {', '.join(map(str, times[name]['tokens']))}"
            for name in ("e", "d")
        )
        + ".",
    )
    x = Axis([4, 14], 70, 724)
    for tick in range(4, 15):
        d.line([(x(tick), 28), (x(tick), 292)], PALE, 1)
        d.text(x(tick), 308, str(tick), size=12, anchor="middle", fill=MUTED)
    d.text(24, 308, "clock", size=12, fill=MUTED)
    for top, name in ((46, "e"), (178, "d")):
        arrival, scheduled, tokens = (times[name][key] for key in ("arrival", "scheduled", "tokens"))
        d.text(24, top + 5, name, bold=True)
        d.line([(x(arrival), top), (x(tokens[-1]), top)], INK, 1.5)
        d.line([(x(arrival), top - 9), (x(arrival), top + 9)], INK, 2.5)
        d.rect(x(scheduled) - 5, top - 5, 10, 10, ORANGE)
        for token in tokens:
            d.circle(x(token), top, 5, BLUE)
        spans = [
            ("queue", arrival, scheduled, 0),
            ("prefill", scheduled, tokens[0], 0),
            ("decode", tokens[0], tokens[-1], 0),
        ]
        spans += [("TTFT", arrival, tokens[0], 1)]
        spans += [("ITL", before, after, 1) for before, after in pairwise(tokens)]
        spans += [("e2e", arrival, tokens[-1], 2)]
        for words, start, end, row in spans:
            if start == end:
                continue
            y = top + 18 + 28 * row
            d.rect(x(start) + 1, y, x(end) - x(start) - 2, 22, "#9cc3ff" if words in ("TTFT", "ITL") else WHITE, LINE)
            d.text((x(start) + x(end)) / 2, y + 15, f"{words} {end - start}", size=12, anchor="middle")
    d.line([(90, 318), (90, 328)], INK, 2.5)
    d.text(98, 327, "arrives", size=12)
    d.rect(168, 318, 10, 10, ORANGE)
    d.text(184, 327, "first in a step", size=12)
    d.circle(300, 323, 5, BLUE)
    d.text(312, 327, "the step that brings a token is over", size=12)
    return d


# --- what was measured --------------------------------------------------------------------------------------------


def table(report: str, words: str) -> Cells:
    """The one table of benchmarks/results/REPORT.md whose first line has these words: a dict for each row."""
    paragraphs = (ROOT / "benchmarks" / "results" / f"{report}.md").read_text(encoding="utf-8").split("\n\n")
    (found,) = [paragraph for paragraph in paragraphs if words in paragraph.partition("\n")[0]]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in found.strip().splitlines()]
    names = [f"{name} {rows[0][:i].count(name) + 1}" if name in rows[0][:i] else name for i, name in enumerate(rows[0])]
    return [dict(zip(names, row, strict=True)) for row in rows[2:]]


def value(cell: str) -> float:
    """1,234 and 12.3 ± 4 as numbers."""
    return float(cell.partition("±")[0].replace(",", "").strip())


def spread(cell: str) -> float:
    return float(cell.partition("±")[2] or 0)


def axes(d: Drawing, x: Axis, y: Axis, ticks_of_x: list[float], ticks_of_y: list[float], name: str, unit: str) -> None:
    """The frame of a plot, its ticks and the names of its axes."""
    for tick in ticks_of_y:
        d.line([(x.start, y(tick)), (x.end, y(tick))], PALE, 1)
        d.text(x.start - 8, y(tick) + 4, f"{tick:,g}", size=12, anchor="end", fill=MUTED)
    d.line([(x.start, y.start), (x.end, y.start)], LINE, 1)
    for tick in ticks_of_x:
        d.text(x(tick), y.start + 18, f"{tick:,g}", size=12, anchor="middle", fill=MUTED)
    d.text((x.start + x.end) / 2, y.start + 38, name, size=13, anchor="middle")
    d.text(x.start - 34, y.end - 14, unit, size=13)


def curve(d: Drawing, points: list[Point], colour: str, label: str = "", dash: str = "") -> None:
    d.line(points, colour, 2.5, dash)
    for x, y in points:
        d.circle(x, y, 3.5, colour)
    if label:
        d.text(points[-1][0] + 10, points[-1][1] + 4, label, size=13, bold=True)


def scheduler_cost() -> Drawing:
    rows = table("scheduler", "vLLM schedule µs")
    running = [value(row["running"]) for row in rows]
    ours = [value(row["total µs"]) for row in rows]
    theirs = [value(row["total µs 2"]) for row in rows]
    d = Drawing(
        760,
        350,
        "The cost of a scheduling step",
        f"Log-log plot. From {running[0]:,g} to {running[-1]:,g} running requests a step of ours takes {ours[0]:,g} to "
        f"{ours[-1]:,g} microseconds, one of vLLM's {theirs[0]:,g} to {theirs[-1]:,g}.",
    )
    x, y = Axis(running, 80, 660, log=True), Axis([1, 131072], 290, 44, log=True)
    axes(d, x, y, running, [1, 10, 100, 1000, 10_000, 100_000], "running requests, each of which decodes", "µs a step")
    curve(d, [(x(a), y(b)) for a, b in zip(running, theirs, strict=True)], "#c2410c", "vLLM", "7 4")
    curve(d, [(x(a), y(b)) for a, b in zip(running, ours, strict=True)], BLUE, "mini_vllm")
    return d


def roofline() -> Drawing:
    rows = table("step_cost", "| rows | GFLOP/s | roof |")
    tokens = [value(row["rows"]) for row in rows]
    rates, roof = ([value(row[name]) for row in rows] for name in ("GFLOP/s", "roof"))
    d = Drawing(
        760,
        350,
        "The roofline of a processor",
        f"Log-log plot of the linear layers. With {tokens[0]:g} row they reach {rates[0]:,g} GFLOP/s of {roof[0]:,g} "
        f"that the memory allows, with {tokens[-1]:g} rows {rates[-1]:,g} of {roof[-1]:,g} that the arithmetic allows.",
    )
    x, y = Axis(tokens, 80, 640, log=True), Axis([10, 1000], 290, 44, log=True)
    axes(d, x, y, tokens, [10, 100, 1000], "rows, that is, tokens in the step", "GFLOP/s")
    curve(d, [(x(a), y(b)) for a, b in zip(tokens, roof, strict=True)], LINE, "", "7 4")
    curve(d, [(x(a), y(b)) for a, b in zip(tokens, rates, strict=True)], BLUE)
    d.text(x(tokens[1]), y(roof[1]) - 14, "the roof", size=13, anchor="end", fill=MUTED)
    d.text(x(tokens[-1]) + 10, y(rates[-1]) + 4, "measured", size=13, bold=True)
    return d


def decode_by_context() -> Drawing:
    rows = [row for row in table("engine", "| tokens a second |") if row["tokens a second"].startswith("decode, 8 at")]
    contexts = [value(row["tokens a second"].partition(" at ")[2]) for row in rows]
    engines = [name for name in rows[0] if name in ("mini_vllm", "vLLM")]
    rates = {name: [value(row[name]) for row in rows] for name in engines}
    d = Drawing(
        760,
        350,
        "Decoding behind a context",
        "Log-log plot of output tokens a second of 8 requests on a CPU, by context. "
        + " ".join(
            f"{name}: {', '.join(f'{rate:g} at {n:,g}' for n, rate in zip(contexts, rates[name], strict=True))}."
            for name in engines
        ),
    )
    highest = max(max(each) for each in rates.values())
    x, y = Axis(contexts, 80, 640, log=True), Axis([1, 2 * highest], 290, 44, log=True)
    axes(d, x, y, contexts, [1, 10, 100], "context of each of 8 requests, in tokens", "output tokens / s")
    for name, colour, dash in (("vLLM", "#c2410c", "7 4"), ("mini_vllm", BLUE, "")):
        curve(d, [(x(a), y(b)) for a, b in zip(contexts, rates[name], strict=True)], colour, name, dash)
    return d


def engines() -> Drawing:
    rows = table("engine", "| engine | output tok/s")
    d = Drawing(
        760,
        40 + 52 * len(rows) + 48,
        "Output tokens a second of four engines",
        "Bars with ranges: "
        + "; ".join(f"{row['engine'].partition(' (')[0]} {row['output tok/s']}" for row in rows)
        + ".",
    )
    x = Axis([0, 100], 300, 720)
    bottom = 40 + 52 * len(rows)
    for tick in (0, 25, 50, 75, 100):
        d.line([(x(tick), 28), (x(tick), bottom)], LINE if tick == 0 else PALE, 1)
        d.text(x(tick), bottom + 18, str(tick), size=12, anchor="middle", fill=MUTED)
    d.text(510, bottom + 38, "output tokens / s, median and range", size=13, anchor="middle")
    for i, row in enumerate(rows):
        y = 40 + 52 * i
        name, _, versions = row["engine"].partition(" (")
        own = name.startswith("mini")
        d.text(290, y + 15, name.replace("continuous batching", "cont. batching"), size=13, anchor="end", bold=own)
        d.text(290, y + 31, versions.rstrip(")").partition(",")[0], size=11, anchor="end", fill=MUTED)
        d.rect(x(0), y, x(value(row["output tok/s"])) - x(0), 32, BLUE if own else "#9cc3ff", "none")
        low, high = (float(part) for part in row["range"].split(" to "))
        d.line([(x(low), y + 16), (x(high), y + 16)], INK, 1.5)
        for end in (low, high):
            d.line([(x(end), y + 10), (x(end), y + 22)], INK, 1.5)
    return d


def goodput() -> Drawing:
    rows = [
        row
        for row in table("policies", "| arrivals | policy | good %, by gaps")
        if row["policy"] in ("v1", "prefill_first", "warm_first")
    ]
    loads = list(dict.fromkeys(row["arrivals"] for row in rows if "over capacity" not in row["policy"]))
    rows = [row for row in rows if row["arrivals"] in loads]
    height = 80 + 31 * len(rows) + 24 * len(loads)
    d = Drawing(
        760,
        height + 30,
        "Good requests, by two definitions",
        "; ".join(
            f"{row['arrivals']}, {row['policy']}: {row['good %, by gaps']} % by gaps, {row['good %, by TPOT']} by TPOT"
            for row in rows
        ),
    )
    x = Axis([0, 100], 160, 720)
    d.circle(34, 24, 6, BLUE)
    d.text(46, 29, "by gaps: 99 % of a request's gaps within 0.1 s", size=13)
    d.circle(400, 24, 6, ORANGE)
    d.text(412, 29, "by TPOT: the mean of its gaps within 0.1 s", size=13)
    y, last = 44.0, ""
    for tick in (0, 25, 50, 75, 100):
        d.line([(x(tick), 44), (x(tick), height - 16)], PALE if tick else LINE, 1)
        d.text(x(tick), height, str(tick), size=12, anchor="middle", fill=MUTED)
    for row in rows:
        if row["arrivals"] != last:
            last = row["arrivals"]
            y += 24
            d.text(24, y - 4, last, size=13, bold=True)
        d.text(150, y + 20, row["policy"], size=13, anchor="end")
        for place, name, colour in [(y + 11, "good %, by gaps", BLUE), (y + 21, "good %, by TPOT", ORANGE)]:
            middle, half = value(row[name]), spread(row[name])
            d.line([(x(max(0, middle - half)), place), (x(min(100, middle + half)), place)], colour, 2.5)
            d.circle(x(middle), place, 5, colour)
        y += 31
    d.text(440, height + 20, "requests that meet the SLO, %", size=13, anchor="middle")
    return d


def verdicts() -> Drawing:
    rows = table("labs", "a part: median s")
    d = Drawing(
        760,
        52 + 19 * len(rows) + 60,
        "Seconds from a save to a verdict",
        "; ".join(
            f"{row['lab']}: {row['a part: median s']} s on a part, {row['all: median s']} s on all" for row in rows
        ),
    )
    x = Axis([0, 5.5], 330, 730)
    bottom = 48 + 19 * len(rows)
    d.circle(334, 22, 5, BLUE)
    d.text(346, 27, "a part of the cases", size=13)
    d.circle(520, 22, 5, ORANGE)
    d.text(532, 27, "all of them", size=13)
    for tick in range(6):
        d.line([(x(tick), 38), (x(tick), bottom)], PALE if tick else LINE, 1)
        d.text(x(tick), bottom + 18, str(tick), size=12, anchor="middle", fill=MUTED)
    for i, row in enumerate(rows):
        y = 50 + 19 * i
        d.text(318, y + 4, row["lab"], size=12, anchor="end")
        for part, colour in [("a part", BLUE), ("all", ORANGE)]:
            median, p95 = value(row[f"{part}: median s"]), value(row["p95 s" if part == "a part" else "p95 s 2"])
            d.line([(x(median), y), (x(p95), y)], colour, 2)
            d.circle(x(median), y, 4.5, colour)
    d.text(
        525,
        bottom + 40,
        "seconds: the dot is the median, the line ends at the 95th percentile",
        size=13,
        anchor="middle",
    )
    return d


def mask_of_a_grammar() -> Drawing:
    """A schema, its automaton, the mask in one of its states, and the token that is chosen. As in the cell below it."""
    texts, state = ['"yes"', '"no"'], '"'
    vocabulary = dict(zip(['"', "y", "n", "es", "yes", 'no"', "o", '"y', "KV", "<end>"], LIKING, strict=True))
    allowed = [token for token in vocabulary if any(text.startswith(state + token) for text in texts)]
    chosen = max(allowed, key=vocabulary.__getitem__)
    d = Drawing(
        760,
        372,
        "From a schema to a token",
        f"The schema allows two texts. Its automaton has a state for each beginning of one. After the first quotation "
        f"mark {len(allowed)} of {len(vocabulary)} tokens lead on: {', '.join(allowed)}. The logits of the others "
        f"become minus infinity, and {chosen} is chosen, though KV had the largest logit.",
    )
    d.text(24, 34, "Schema", bold=True)
    d.box(24, 48, 190, 34, '{"enum": ["yes", "no"]}', fill=PALE)
    d.text(24, 122, "Automaton: a state for each beginning of a text", bold=True)

    def place(beginning: str) -> Point:
        """Of the middle of a state."""
        return 40 + 78 * len(beginning), 210 if len(beginning) < 2 else 168 + 84 * (beginning[1] == "n")

    states = sorted({text[:i] for text in texts for i in range(len(text) + 1)})
    for name in states[1:]:
        (x1, y1), (x2, y2) = place(name[:-1]), place(name)
        corner = [(x1, y2)] if y1 != y2 else []
        d.arrow((x1, y1), *corner, (x2 - 14, y2), label=name[-1], at=((x1 + x2) / 2 - 4, y2 - 7))
    for name in states:
        d.circle(*place(name), 14, INK)
        d.circle(*place(name), 12.5, BLUE if name == state else WHITE)
        if name in texts:
            d.circle(*place(name), 7, INK)
    d.text(24, 296, "Blue: the state after a quotation mark. A dot: a text ends here.", size=13)
    d.text(24, 314, "A token may cross several states: from the blue one", size=13)
    d.text(24, 332, "the token of n, o and a quotation mark leads to an end.", size=13)
    d.text(500, 34, "Mask of the blue state", bold=True)
    d.text(590, 58, "logit", size=12, anchor="middle", fill=MUTED)
    d.text(672, 58, "masked", size=12, anchor="middle", fill=MUTED)
    for i, (token, logit) in enumerate(vocabulary.items()):
        y = 68 + 28 * i
        d.box(500, y, 60, 24, token, fill=ORANGE if token == chosen else WHITE)
        d.text(590, y + 17, str(logit), anchor="middle")
        d.text(672, y + 17, str(logit) if token in allowed else "-∞", anchor="middle", bold=token == chosen)
    return d


# --- phase 5 ------------------------------------------------------------------------------------------------------


def verification() -> Drawing:
    """One step that verifies four drafts, of which one is right."""
    known, drafts, answers = "block", ["holds", "keys", ".", "a"], ["holds", "values", ".", "the", "block"]
    num_right = next(i for i, (draft, answer) in enumerate(zip(drafts, answers, strict=False)) if draft != answer)
    d = Drawing(
        760,
        318,
        "One step that verifies four drafts",
        f"The step computes the newest token, {known}, and the drafts {', '.join(drafts)}. For each of these "
        f"{len(answers)} places the model says which token follows: {', '.join(answers)}. {num_right} draft is right. "
        f"So the request gets {num_right + 1} tokens, {' and '.join(answers[: num_right + 1])}, and the other rows "
        "are thrown away.",
    )
    d.text(24, 34, "The text so far ends in: a block holds keys. a block", bold=True)
    for y, words in (
        (72, "computed"),
        (96, "in this step"),
        (156, "the model says"),
        (180, "what follows"),
        (246, "so"),
    ):
        d.text(24, y, words, size=13, fill=MUTED)
    for i, answer in enumerate(answers):
        x, token = 150 + 120 * i, (known, *drafts)[i]
        counts = i <= num_right
        d.box(x, 58, 96, 44, token, "draft" if i else "known", fill=ORANGE if i else BLUE)
        d.arrow((x + 48, 102), (x + 48, 142))
        d.box(x, 142, 96, 44, answer, fill=GREEN if counts else WHITE)
        if i < len(drafts):
            is_right = answer == drafts[i]
            d.text(
                x + 108,
                170,
                "=" if is_right else "≠",
                size=20,
                anchor="middle",
                bold=True,
                fill=INK if counts else LINE,
            )
        d.text(
            x + 48,
            216,
            f"token {i + 1}" if counts else "not used",
            size=13,
            anchor="middle",
            fill=INK if counts else MUTED,
        )
    first = f"The first draft is what the model says there. So the row behind it counts, too: {answers[1]}."
    d.text(150, 246, first, size=13)
    d.text(150, 266, "The second draft is wrong. What the model says behind it belongs to another text.", size=13)
    d.text(
        150,
        286,
        f"The request gets {num_right + 1} tokens from one step, and {len(drafts) - num_right} places are taken back.",
        size=13,
    )
    return d


PICTURES: dict[str, Callable[[], Drawing]] = {
    "assets/card": card,
    f"{PHASE_1}/address": address,
    f"{PHASE_1}/online-softmax": online_softmax,
    f"{PHASE_1}/grid": grid,
    f"{PHASE_1}/step": step_of_vllm,
    f"{PHASE_2}/classes": classes,
    f"{PHASE_3}/queues": queues,
    f"{PHASE_3}/groups": queues_of_groups,
    f"{PHASE_3}/four": four_schedulers,
    f"{PHASE_5}/verification": verification,
    "serving/path": path_of_a_request,
    "serving/times": times_of_requests,
    "serving/mask": mask_of_a_grammar,
    f"{PHASE_1}/roofline": roofline,
    "measured/scheduler": scheduler_cost,
    "measured/growth": decode_by_context,
    "measured/engines": engines,
    "measured/goodput": goodput,
    "measured/verdicts": verdicts,
}


def main() -> int:
    """The exit status."""
    drawn = {DOCS / f"{name}.svg": draw().svg() for name, draw in PICTURES.items()}
    stale = [file for file, text in drawn.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file in stale:
        print(f"{file.relative_to(ROOT).as_posix()}: {'stale' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            file.parent.mkdir(exist_ok=True)
            file.write_text(drawn[file], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
