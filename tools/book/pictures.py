"""The drawn pictures of the book: `python tools/book/pictures.py [--check]`.

A picture is a function here; for a phone it draws the same NARROW units wide, which tools/book/hooks.py adds to a page.
Its numbers are computed, or read from the traces of docs/figures/ and from the tables of benchmarks/results/. --check
writes nothing; exit status 1 if a picture is not what its function draws.
"""

import json
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tools.book.drawing import (  # noqa: E402
    AMBER,
    BLUE,
    GREEN,
    INK,
    LIGHT,
    LINE,
    MUTED,
    NARROW,
    ORANGE,
    PALE,
    PAPER,
    PURPLE,
    RED,
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
    d.text(80, 258, "How an LLM inference engine works,", size=42, fill=LIGHT)
    d.text(80, 312, "learned by building one", size=42, fill=LIGHT)
    trace = json.loads((DOCS / "figures" / "p3-four-v1.json").read_text(encoding="utf-8"))
    for i, request in enumerate(trace["requests"]):
        for step in trace["steps"]:
            if tokens := dict(step["sched"]).get(request["id"]):
                x, y = 80 + 74 * step["step"], 372 + 34 * i
                prefill = step["computed"][request["id"]] < len(request["prompt"])
                d.rect(x, y, 68, 26, ORANGE if prefill else "#5fc7e4", "none")
                if prefill:
                    d.text(x + 34, y + 20, str(tokens), size=20, anchor="middle", bold=True)
    return d


# --- pictures that are rows of boxes ------------------------------------------------------------------------------

Link = tuple[str, str, str, str]  # from, to, the words beside the arrow, and how it runs: straight, left, right


def flow(title: str, description: str, rows: list[list[tuple[str, ...]]], links: list[Link], gap: int = 46) -> Drawing:
    """Boxes below one another, for a phone. A row has one box or two; the first line of a box is its name.

    An arrow that runs "straight" leads to the next row or the one before; one on a side may pass over rows.
    """
    places: dict[str, tuple[float, float, float, float]] = {}
    y = 16.0
    for row in rows:
        width = 150 if len(row) == 1 else 162
        height = 18 + 18 * max(len(box) for box in row)
        for i, box in enumerate(row):
            x = (NARROW - width) / 2 if len(row) == 1 else 12 + i * (NARROW - 24 - width)
            places[box[0].strip("*!")] = (x, y, width, height)
        y += height + gap
    d = Drawing(NARROW, int(y - gap + 16), title, description)
    for row in rows:
        for box in row:
            x, top, width, height = places[box[0].strip("*!")]
            fill = LIGHT if box[0].startswith("*") else ORANGE if box[0].startswith("!") else WHITE
            d.box(x, top, width, height, box[0].strip("*!"), *box[1:], fill=fill, size=12)
    for start, end, words, side in links:
        (x1, y1, w1, h1), (x2, y2, w2, h2) = places[start], places[end]
        if side == "straight":
            (a, b) = (x1 + w1 / 2, x2 + w2 / 2)
            (top, bottom) = (y1 + h1, y2) if y1 < y2 else (y1, y2 + h2)
            middle = (top + bottom) / 2
            if a != b:  # two boxes share one: each has an end of its own there
                (a, b) = (a + 14 * (1 if b > a else -1), b) if w1 < w2 else (a, b + 14 * (1 if a > b else -1))
            d.arrow((a, top), *([] if a == b else [(a, middle), (b, middle)]), (b, bottom))
            label(d, a + 10, middle + 4, words, "start")
            continue
        out = -1 if side == "left" else 1
        edge = x1 if out < 0 else x1 + w1
        target = x2 if out < 0 else x2 + w2
        column = edge + out * (18 + 14 * (abs(y2 - y1) > 150))
        (a, b) = (y1 + h1 * (0.65 if y2 > y1 else 0.35), y2 + h2 * (0.35 if y2 > y1 else 0.65))
        if start == end:
            (a, b) = (y1 + 0.1 * h1, y1 + 0.4 * h1)
        d.arrow((edge, a), (column, a), (column, b), (target, b))
        label(d, column + out * 5, (a + b) / 2 + 4, words, "end" if out < 0 else "start")
    return d


def label(d: Drawing, x: float, y: float, words: str, anchor: str) -> None:
    lines = words.split("\n")
    for i, line in enumerate(lines):
        d.text(x, y + 14 * (i - (len(lines) - 1) / 2), line, size=12, anchor=anchor, fill=MUTED)


# --- phase 1 ------------------------------------------------------------------------------------------------------


def address(narrow: bool = False) -> Drawing:
    """A position, its entry in the block table, its slot and its bytes."""
    block_size, table, position, bytes_of_a_key = 4, [3, 6, 2], 6, 2 * 32 * 2
    column, offset = divmod(position, block_size)
    slot = table[column] * block_size + offset
    d = Drawing(
        NARROW if narrow else 760,
        556 if narrow else 362,
        "What a block table does to an address",
        f"Position {position} is split by the block size {block_size} into column {column}, offset {offset}. Only the "
        f"column goes through the block table {table}, which has block {table[column]} there. Both together make "
        f"slot {slot}, which begins at byte {slot * bytes_of_a_key:,} of the layer's key cache.",
    )
    sum_of_slot = f"slot = {table[column]} * {block_size} + {offset} = {slot}"
    ends = [
        f"A key of the bundled model takes 2 KV heads x 32 numbers x 2 bytes = {bytes_of_a_key} bytes in each layer,",
        f"so slot {slot} begins at byte {slot * bytes_of_a_key:,} of this layer's key cache.",
        "The next token goes to slot 27. The one after it opens the next column: block 2.",
    ]

    def draw_table(x: float, y: float) -> None:
        for i, block in enumerate(table):
            d.box(x + 52 * i, y, 52, 30, str(block), fill=BLUE if i == column else WHITE)
            d.text(x + 26 + 52 * i, y + 45, str(i), size=12, anchor="middle", fill=MUTED)

    def draw_block(block: int, x: float, y: float, width: float) -> None:
        for i in range(block_size):
            here = block == table[column]
            is_slot = block * block_size + i == slot
            d.rect(x + i * width, y, width, 30, ORANGE if is_slot else LIGHT if here else WHITE, LINE)
        d.line([(x, y - 6), (x, y + 36)])
        d.text(x + 2 * width, y + 54, f"block {block}", size=12, anchor="middle", fill=MUTED)

    if narrow:
        d.paragraph(16, 30, "The position is split; only its column goes through the table", bold=True)
        d.box(16, 66, 328, 32, f"position {position}", fill=PALE)
        d.arrow((90, 98), (90, 126), label="// 4", at=(98, 116))
        d.box(16, 126, 160, 28, f"column {column}", fill=BLUE)
        d.arrow((94, 154), (94, 186))
        d.text(104, 176, "block table of b", size=12, fill=MUTED)
        draw_table(16, 186)
        d.arrow((94, 233), (94, 258), label=f"block {table[column]}", at=(102, 250))
        d.arrow((270, 98), (270, 126), label="% 4", at=(278, 116))
        d.box(200, 126, 144, 28, f"offset {offset}", fill=ORANGE)
        d.arrow((270, 154), (270, 258))
        d.box(16, 258, 328, 30, sum_of_slot, fill=PALE)
        d.text(16, 320, "The key cache of a layer, slot by slot", bold=True)
        for block in range(9):
            draw_block(block, 16 + 66 * (block % 5), 338 + 66 * (block // 5), 16)
        d.end(d.paragraph(16, 484, " ".join(ends)))
        return d
    d.text(24, 34, "The position is split; only its column goes through the table", bold=True)
    d.box(24, 60, 150, 44, f"position {position}", fill=PALE)
    d.arrow((174, 72), (250, 72), label="// 4")
    d.box(250, 60, 110, 24, f"column {column}", fill=BLUE)
    d.arrow((99, 104), (99, 142), (250, 142), label="% 4", at=(112, 132))
    d.box(250, 130, 110, 24, f"offset {offset}", fill=ORANGE)
    d.text(440, 52, "block table of b", size=13, fill=MUTED)
    draw_table(440, 60)
    d.arrow((360, 72), (438, 72))
    d.arrow((518, 110), (518, 130), label=f"block {table[column]}", at=(528, 125))
    d.arrow((360, 142), (438, 142))
    d.box(440, 131, 296, 24, sum_of_slot, fill=PALE)
    d.text(24, 206, "The key cache of a layer, slot by slot", bold=True)
    width = 712 / 36
    for block in range(9):
        draw_block(block, 24 + block * block_size * width, 222, width)
    d.line([(736, 216), (736, 258)])
    d.arrow((588, 155), (588, 182), (24 + (slot + 0.5) * width, 182), (24 + (slot + 0.5) * width, 220))
    for i, line in enumerate(ends):
        d.text(24, 308 + 18 * i, line, size=13)
    return d


def slots(narrow: bool = False) -> Drawing:
    """Two block tables, and where the positions of step 4 lie in the cache."""
    size, tables = 4, {"b": [3, 6], "d": [5, 4, 7]}
    num_tokens, first_new = {"b": 7, "d": 9}, {"b": 6, "d": 0}
    d = Drawing(
        NARROW if narrow else 760,
        712 if narrow else 406,
        "From block tables to slots",
        "Request b owns blocks 3 and 6, request d blocks 5, 4 and 7. Position 6 of b lies in slot 26; positions 0 to 8 "
        "of d lie in slots 20 to 23, 16 to 19 and 28.",
    )
    left = 16 if narrow else 24
    d.text(left, 34, "Block tables at step 4", bold=True)
    for i, (name, position) in enumerate((("b", 6), ("d", 4))):
        y = 52 + (62 if narrow else 40) * i
        d.text(left, y + 21, f"request {name}")
        for j, block in enumerate(tables[name]):
            d.box(left + 86 + 46 * j, y, 42, 30, str(block), fill=BLUE if name == "b" else PURPLE)
        column, offset = divmod(position, size)
        words = f"position {position}: column {position} // {size} = {column}, block {tables[name][column]}, "
        words += f"offset {position} % {size} = {offset}"
        if narrow:
            d.text(left, y + 50, words.replace("position", "pos.").replace(f"{position} // {size} = ", ""), size=13)
        else:
            d.text(290, y + 21, words)
    top = 202 if narrow else 168
    d.text(left, top, "The cache: block by block, slot by slot", bold=True)
    holds = {}
    for name, table in tables.items():
        for position in range(num_tokens[name]):
            holds[table[position // size] * size + position % size] = (name, position)
    for block in range(9):
        columns = 2 if narrow else 5
        x, y = left + (166 if narrow else 142) * (block % columns), top + 32 + 92 * (block // columns)
        width = 38 if narrow else 32
        d.text(x, y - 6, f"block {block}" + " (null)" * (block == 0), size=13, fill=MUTED)
        for i in range(size):
            slot = block * size + i
            name, position = holds.get(slot, ("", 0))
            is_new = bool(name) and position >= first_new[name]
            fill = {"b": BLUE, "d": PURPLE}.get(name, PALE if block == 0 else WHITE)
            d.rect(x + width * i, y, width, 34, fill, INK if is_new else LINE, 2.5 if is_new else 1)
            words, ink = f"{name}{position}" if name else "", WHITE if fill == BLUE else INK
            d.text(x + width * (i + 0.5), y + 22, words, size=13, anchor="middle", bold=is_new, fill=ink)
            d.text(x + width * (i + 0.5), y + 49, str(slot), size=12, anchor="middle", fill=MUTED)
    words = "Thick borders: written in this step. Small numbers are slots: b6 goes to slot 26, d4 to slot 16."
    d.end(d.paragraph(left, 680 if narrow else 388, words))
    return d


def online_softmax(narrow: bool = False) -> Drawing:
    """The table of the chapter: scores 0, ln 4 and ln 2, values 7, 14 and 21."""
    exponentials, values = [1, 4, 2], [7, 14, 21]
    d = Drawing(
        NARROW if narrow else 760,
        640 if narrow else 372,
        "Online softmax: what was summed shrinks when a larger score comes",
        "Three panels. After the first score the only weight is 1. The second score is larger, so the first weight is "
        "multiplied by a quarter and the new one is 1. The third score is smaller and gets the weight one half; "
        "nothing is rescaled.",
    )
    d.text(16 if narrow else 24, 34, "Weights are relative to the largest score so far", bold=True)
    names, maximum = ["0", "ln 4", "ln 2"], 0
    for i in range(3):
        before, maximum = maximum, max(exponentials[: i + 1])
        x, top = (16, 48 + 198 * i) if narrow else (24 + 248 * i, 52)
        d.rect(x, top, 328 if narrow else 216, 164 if narrow else 296, WHITE, LINE)
        d.text(x + 14, top + 24, f"score {i + 1} is {names[i]}", bold=True)
        d.text(x + 14, top + 44, f"m = {'0' if maximum == 1 else 'ln 4'}", size=13, fill=MUTED)
        if i:
            factor = "×¼" if before / maximum == 0.25 else "×1"
            if narrow:
                d.arrow((x + 100, top - 32), (x + 100, top - 2))
                d.text(x + 110, top - 12, factor, size=13, bold=True)
            else:
                d.arrow((x - 32, 200), (x - 2, 200))
                d.text(x - 17, 190, factor, size=13, anchor="middle", bold=True)
        bottom = top + (140 if narrow else 192)
        for j in range(i + 1):
            weight = exponentials[j] / maximum
            height = (64 if narrow else 120) * weight
            d.rect(x + 24 + 58 * j, bottom - height, 44, height, ORANGE if j == i else LIGHT)
            d.text(x + 46 + 58 * j, bottom - 6 - height, fraction(weight), size=13, anchor="middle")
            d.text(x + 46 + 58 * j, bottom + 18, f"v = {values[j]}", size=12, anchor="middle", fill=MUTED)
        d.line([(x + 14, bottom), (x + 202, bottom)])
        weights = [exponentials[j] / maximum for j in range(i + 1)]
        total, summed = sum(weights), sum(w * v for w, v in zip(weights, values, strict=False))
        x, y = (x + 222, top + 90) if narrow else (x + 14, top + 242)
        d.text(x, y, f"l = {fraction(total)}", size=13)
        d.text(x, y + 20, f"o = {fraction(summed)}", size=13)
        d.text(x, y + 42, f"o / l = {summed / total:g}", bold=True)
    return d


def fraction(value: float) -> str:
    """Quarters as fractions: 0.25 is 1/4, 1.75 is 7/4."""
    for divisor in (1, 2, 4):
        if (value * divisor).is_integer():
            return f"{value * divisor:g}" + (f"/{divisor}" if divisor > 1 else "")
    return f"{value:g}"


def grid(narrow: bool = False) -> Drawing:
    """The launch of lab 01.4's contract: three tokens of 6 numbers, programs of 8 lanes, and where the rows go."""
    written_to, row, block, num_slots = [2, -1, 5], 6, 8, 8
    d = Drawing(
        NARROW if narrow else 760,
        668 if narrow else 380,
        "A Triton grid over a tensor",
        "Three programs, one for each row of the tensor key. A program has 8 lanes for the 6 numbers of a row, and the "
        "mask switches two lanes off. Program 0 writes slot 2 of the cache and program 2 writes slot 5. Program 1 has "
        "slot -1 and writes nothing.",
    )
    left, lanes, lane = (16, 122, 27) if narrow else (24, 150, 28)
    cache, top = (60, 374) if narrow else (560, 76)
    d.paragraph(left, 34, "Grid (3,): three programs run the same code, each with its own number", bold=True, size=14)
    d.paragraph(left if narrow else 150, 80 if narrow else 64, "key [T, 2, 3]: a token's 6 numbers side by side")
    d.text(cache, top - 12, "key_cache, slot by slot", size=13, fill=MUTED)
    for slot in range(num_slots):
        y = top + (25 if narrow else 30) * slot
        d.text(cache - 12, y + 17, str(slot), size=12, anchor="end", fill=MUTED)
        for i in range(row):
            d.rect(cache + 28 * i, y, 28, 22 if narrow else 26, ORANGE if slot in written_to else WHITE, LINE)
    for token, slot in enumerate(written_to):
        y = (98 if narrow else 84) + 84 * token
        d.box(left, y, 98, 40, "program", f"program_id {token}", fill=PALE if slot < 0 else LIGHT, size=12)
        for i in range(block):
            masked = i >= row
            d.rect(lanes + lane * i, y + 6, lane, 28, PAPER if masked or slot < 0 else ORANGE, LINE)
            if masked:
                d.text(lanes + lane * (i + 0.5), y + 25, "off", size=11, anchor="middle", fill=MUTED)
        words = f"slot_mapping[{token}] = {slot}"
        if narrow:
            words += ": stores nothing" if slot < 0 else f": writes slot {slot}"
        d.text(lanes, y + 52, words, size=12, fill=MUTED)
        if not narrow and slot >= 0:
            d.arrow((376, y + 20), (440, y + 20), (480, 89 + 30 * slot), (530, 89 + 30 * slot))
        elif not narrow:
            d.text(384, y + 25, "padding: stores nothing", size=12, fill=MUTED)
    ends = [
        "lanes = arange(0, BLOCK), BLOCK = 8, the power of two that holds ROW = 6",
        "mask = lanes < ROW: without it lanes 6 and 7 write into the next slot",
    ]
    y = 604 if narrow else 346
    for line in ends:
        y = d.paragraph(left, y, line) + 2
    d.end(y)
    return d


def tile(narrow: bool = False) -> Drawing:
    """The second tile of the chapter: blocks of 3 slots, heads of 5 numbers, a row that sees positions 0 to 4."""
    later, beyond = "#f6e3b0", "#eccbc8"
    d = Drawing(
        NARROW if narrow else 560,
        396 if narrow else 370,
        "A tile and its mask",
        "Of a tile of 4 by 8 numbers only positions 3 and 4, dimensions 0 to 4, are loaded. Masked are position 5, "
        "which comes later, dimensions 5 to 7 and the fourth row.",
    )
    left, start, width = (12, 106, 30) if narrow else (24, 170, 44)
    d.paragraph(left, 34, "Column 1 of the table, for a row that sees 0 to 4", bold=True, size=14)
    for i in range(8):
        d.text(start + width * (i + 0.5), 74, str(i), size=12, anchor="middle", fill=MUTED)
    for j, name in enumerate(("position 3", "position 4", "position 5", "past the block")):
        d.text(start - 10, 106 + 34 * j, name, size=13, anchor="end")
        for i in range(8):
            fill = PALE if j == 3 else beyond if i > 4 else later if j == 2 else BLUE
            d.rect(start + width * i, 84 + 34 * j, width, 34, fill, LINE)
    y = 250.0
    for fill, words in [
        (BLUE, "loaded: in sight, and a number of this head"),
        (later, "a later position: a NaN here would survive a weight of 0"),
        (beyond, "beyond HEAD_DIM = 5: numbers of the next head, or of none"),
        (PALE, "beyond BLOCK_SIZE = 3: a slot of the next block"),
    ]:
        d.rect(left, y, 18, 18, fill, LINE)
        y = max(d.paragraph(left + 28, y + 14, words) - 6, y + 26)
    d.end(y + 8)
    return d


def split(narrow: bool = False) -> Drawing:
    """A decode of 4,096 keys by 8 programs, and by 64."""
    d = Drawing(
        NARROW if narrow else 712,
        372 if narrow else 308,
        "Split keys",
        "Without a split 8 programs each walk 4096 keys; split by 512 there are 64 programs of 512 keys and a merge.",
    )
    left, width = (16, 328) if narrow else (24, 512)
    d.text(left, 34, "One decode, 4,096 keys, 8 KV heads", bold=True)
    y = d.paragraph(left, 62, "One program a head walks all keys: 8 programs, each 64 steps of 64 keys.") - 6
    for head in range(8):
        d.rect(left, y + 9 * head, width, 7, BLUE, "none")
    y += 98
    y = d.paragraph(
        left, y, "Keys split by 512: 64 programs, each 8 steps; then a merge makes one result of 8 partial ones."
    )
    y -= 6
    for head in range(8):
        for part in range(8):
            fill = (BLUE, ORANGE, GREEN, PURPLE)[part % 4]
            d.rect(left + part * width / 8, y + 9 * head, width / 8 - 3, 7, fill, "none")
    if narrow:
        d.arrow((180, y + 76), (180, y + 94))
        d.box(136, y + 94, 88, 30, "merge")
    else:
        d.arrow((548, y + 36), (596, y + 36))
        d.box(600, y + 10, 84, 52, "merge")
    words = "A bar is a program, and its length the keys that it walks; all programs run at the same time."
    d.end(d.paragraph(left, y + (148 if narrow else 98), words))
    return d


def waste(narrow: bool = False) -> Drawing:
    """What the slots are, for each way to give out memory."""
    kinds = {"a token": BLUE, "reserved": LIGHT, "wasted": RED, "stranded": ORANGE, "free": PALE}
    chosen = ("stretch of 8,192", "next power", "exactly", "of 1,024", "of 256", "of 64", "of 16")
    all_rows = table("waste", "| each request holds | a token")
    rows = [row for words in chosen for row in all_rows if words in row["each request holds"]]
    d = Drawing(
        NARROW if narrow else 760,
        470 if narrow else 332,
        "What the KV memory holds",
        "Stacked bars. "
        + "; ".join(f"{row['each request holds']}: {row['a token']} per cent hold a token" for row in rows)
        + ".",
    )
    left, start, width, pitch = (16, 16, 328, 50) if narrow else (24, 190, 480, 34)
    end = left + 328 if narrow else 734
    d.text(
        left, 32, "Per cent of 65,536 slots" if narrow else "Per cent of 65,536 slots, while requests wait", bold=True
    )
    d.text(end, 32, "running", size=13, anchor="end", fill=MUTED)
    for i, row in enumerate(rows):
        y = 50 + pitch * i + (18 if narrow else 0)
        name = (
            row["each request holds"]
            .replace(" tokens", "")
            .replace("a stretch of the ", "")
            .replace("a stretch of ex", "ex")
        )
        d.text(
            left if narrow else start - 12,
            y - 5 if narrow else y + 17,
            name,
            size=13,
            anchor="start" if narrow else "end",
        )
        d.text(end, y - 5 if narrow else y + 17, row["running"], size=13, anchor="end")
        x = float(start)
        for kind, fill in kinds.items():
            share = value(row[kind]) * width / 100
            if share:
                d.rect(x, y, share, 24, fill, "none")
            if share > 26:
                ink = WHITE if fill in (BLUE, RED) else INK
                d.text(x + share / 2, y + 17, row[kind], size=12, anchor="middle", fill=ink)
            x += share
    x, y = float(start), 308.0 if not narrow else 430.0
    for kind, fill in kinds.items():
        if x + 30 + 7 * len(kind) > end:
            x, y = float(left), y + 20
        d.rect(x, y - 11, 13, 13, fill, LINE)
        d.text(x + 19, y, kind, size=13)
        x += 42 + 7 * len(kind)
    return d


def step_of_vllm(narrow: bool = False) -> Drawing:
    """The chain of the deep dive, in two rows."""
    boxes = [
        ("_update_states", "new block ids", "into rows of the table"),
        ("_prepare_inputs", "table to the GPU, positions,", "slot mapping"),
        ("_determine_batch_execution_", "and_padding: which graph,", "how many rows"),
        ("_get_slot_mappings", "-1 for the padding"),
        ("_build_attention_metadata", "one object", "for all layers"),
        ("each layer", "do_kv_cache_update,", "then forward"),
    ]
    title = "One step of vLLM's model runner"
    description = "Six stages in order: " + "; ".join(": ".join([box[0], " ".join(box[1:])]) for box in boxes) + "."
    d = Drawing(NARROW if narrow else 760, 616 if narrow else 236, title, description)
    for i, lines in enumerate(boxes):
        x, y = (72, 20 + 100 * i) if narrow else (24 + 248 * (i % 3), 24 + 112 * (i // 3))
        d.box(x, y, 216, 76, *lines, fill=LIGHT if i == 5 else WHITE, size=12)
        if narrow and i < 5:
            d.arrow((180, y + 76), (180, y + 100))
        if not narrow and i % 3 < 2:
            d.arrow((x + 216, y + 38), (x + 246, y + 38))
    if not narrow:
        d.arrow((628, 100), (628, 118), (132, 118), (132, 134))
    return d


# --- phase 2 ------------------------------------------------------------------------------------------------------


def classes(narrow: bool = False) -> Drawing:
    title = "Which class asks which"
    description = (
        "The Scheduler asks the KVCacheManager, which asks the KVCacheCoordinator. The coordinator asks a manager "
        "for each kind of layer, FullAttentionManager and SlidingWindowManager. Both ask one BlockPool, which has the "
        "FreeKVCacheBlockQueue and the BlockHashToBlockMap."
    )
    pairs = [
        ("Scheduler", "KVCacheManager"),
        ("KVCacheManager", "KVCacheCoordinator"),
        ("KVCacheCoordinator", "FullAttentionManager"),
        ("KVCacheCoordinator", "SlidingWindowManager"),
        ("FullAttentionManager", "BlockPool"),
        ("SlidingWindowManager", "BlockPool"),
        ("BlockPool", "FreeKVCacheBlockQueue"),
        ("BlockPool", "BlockHashToBlockMap"),
    ]
    if narrow:
        rows: list[list[tuple[str, ...]]] = [
            [("Scheduler",)],
            [("KVCacheManager",)],
            [("KVCacheCoordinator",)],
            [("*FullAttentionManager",), ("*SlidingWindowManager",)],
            [("BlockPool",)],
            [("FreeKVCacheBlockQueue",), ("BlockHashToBlockMap",)],
        ]
        return flow(title, description, rows, [(a, b, "", "straight") for a, b in pairs], gap=32)
    d = Drawing(760, 206, title, description)
    d.box(16, 84, 84, 36, "Scheduler", size=12)
    d.box(124, 84, 122, 36, "KVCacheManager", size=12)
    d.box(270, 84, 138, 36, "KVCacheCoordinator", size=12)
    d.box(430, 30, 152, 36, "FullAttentionManager", size=12, fill=LIGHT)
    d.box(430, 138, 152, 36, "SlidingWindowManager", size=12, fill=LIGHT)
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


def structures(narrow: bool = False) -> Drawing:
    """The manager after step 2 of the first figure of the chapter."""
    num_refs = {1: 2, 2: 2, 3: 1, 4: 1, 5: 1, 6: 0, 7: 0, 8: 0}
    colour = {0: PALE, 1: LIGHT, 2: LIGHT, 3: GREEN, 4: ORANGE, 5: ORANGE}
    d = Drawing(
        NARROW if narrow else 720,
        520 if narrow else 318,
        "Block tables, blocks with reference counts, free queue and index after step 2",
        "The table of a is 1 2 3 5, that of b is 1 2 4. Blocks 1 and 2 have the reference count 2, blocks 3, 4 and 5 "
        "have 1. The free queue is 6 7 8. The index leads from tokens 0 to 3 to block 1, from tokens 0 to 7 to block "
        "2, and from a's tokens 0 to 11 to block 3.",
    )
    x0 = 16 if narrow else 190

    def row(name: str, wide_y: float, narrow_y: float) -> float:
        y = narrow_y if narrow else wide_y
        d.text(16, y - 10 if narrow else y + 22, name, bold=True)
        return y

    def block(number: int, x: float, y: float, width: float = 44) -> None:
        d.box(x, y, width, 34, str(number), fill=colour.get(number, WHITE))

    for name, table_, wide_y, narrow_y in (("a", (1, 2, 3, 5), 22, 40), ("b", (1, 2, 4), 68, 116)):
        y = row(f"block table of {name}", wide_y, narrow_y)
        for i, number in enumerate(table_):
            block(number, x0 + 50 * i, y)
    y = row("blocks, with ref_cnt" if narrow else "blocks", 124, 192)
    pitch = 37 if narrow else 56
    for number in range(9):
        block(number, x0 + pitch * number, y, 33 if narrow else 44)
        refs = str(num_refs.get(number, "null"))
        d.text(x0 + pitch * number + (16 if narrow else 22), y + 50, refs, size=12, anchor="middle", fill=MUTED)
    if not narrow:
        d.text(16, y + 50, "ref_cnt", size=13, fill=MUTED)
    y = row("free queue", 204, 286)
    d.text(x0 + (36 if narrow else 46), y + 22, "front", size=13, anchor="end", fill=MUTED)
    for i, number in enumerate((6, 7, 8)):
        x = x0 + 56 + 70 * i
        block(number, x, y)
        if i:
            d.arrow((x - 24, y + 11), (x - 2, y + 11))
            d.arrow((x - 2, y + 24), (x - 24, y + 24))
    d.text(x0 + 250, y + 22, "back", size=13, fill=MUTED)
    y = row("index of names", 258, 362)
    for i, (name, number) in enumerate((("tokens 0-3", 1), ("tokens 0-7", 2), ("a's tokens 0-11", 3))):
        x, top = (x0, y + 46 * i) if narrow else (x0 + 176 * i, y)
        d.box(x, top, 112, 34, name, size=13)
        d.arrow((x + 112, top + 17), (x + 128, top + 17))
        block(number, x + 128, top, 34)
    return d


def states(narrow: bool = False) -> Drawing:
    title = "The four states of a block and the calls that lead from one to another"
    description = (
        "A free block without a name is given out by get_new_blocks and is then held without a name. cache_block gives "
        "it a name when it is full. free_blocks frees a block without a name to the front of the queue, and one with a "
        "name to the back. touch leads from free to held, and get_new_blocks evicts a free block: it loses its name."
    )
    if narrow:
        rows: list[list[tuple[str, ...]]] = [
            [("free, no name",)],
            [("!held, no name",)],
            [("*held, can be found",)],
            [("free, can be found",)],
        ]
        links = [
            ("free, no name", "held, no name", "get_new_blocks", "straight"),
            ("held, no name", "free, no name", "free_blocks:\nto the front", "left"),
            ("held, no name", "held, can be found", "cache_block:\nit is full", "straight"),
            ("held, can be found", "free, can be found", "free_blocks:\nto the back", "straight"),
            ("free, can be found", "held, can be found", "touch", "left"),
            ("free, can be found", "held, no name", "get_new_\nblocks:\nevicted", "right"),
            ("held, can be found", "held, can be found", "touch", "left"),
        ]
        return flow(title, description, rows, links, gap=64)
    d = Drawing(720, 300, title, description)
    d.text(115, 30, "in the free queue", size=13, anchor="middle", bold=True, fill=MUTED)
    d.text(525, 30, "in ref_cnt tables", size=13, anchor="middle", bold=True, fill=MUTED)
    for x, y, name, more, fill in (
        (40, 50, "free", "no name", WHITE),
        (450, 50, "held", "no name", ORANGE),
        (40, 200, "free", "can be found", PURPLE),
        (450, 200, "held", "can be found", LIGHT),
    ):
        d.box(x, y, 150, 62, name, more, fill=fill)
    for points, words, at, anchor in (
        (((192, 66), (448, 66)), "get_new_blocks: from the front", (320, 58), "middle"),
        (((448, 98), (192, 98)), "free_blocks: to the front", (320, 116), "middle"),
        (((525, 114), (525, 198)), "cache_block: it is full", (535, 160), "start"),
        (((448, 218), (192, 218)), "free_blocks: to the back", (320, 210), "middle"),
        (((192, 250), (448, 250)), "touch: from wherever it stands", (320, 268), "middle"),
        (((115, 198), (115, 160), (400, 160), (470, 114)), "get_new_blocks: evicted", (230, 152), "middle"),
        (((602, 216), (636, 216), (636, 246), (602, 246)), "touch", (644, 236), "start"),
    ):
        d.arrow(*points)
        d.text(*at, words, size=13, anchor=anchor, fill=MUTED)
    return d


# --- phase 3 ------------------------------------------------------------------------------------------------------


def two_counters(narrow: bool = False) -> Drawing:
    """The table of the chapter: known, computed before the step and computed in it."""
    before, now, known = [0, 4, 8, 10, 8, 12], [4, 4, 2, 1, 4, 1], [10, 10, 10, 11, 12, 13]
    names = ["chunk", "chunk", "last chunk", "decode", "recompute", "decode"]
    d = Drawing(
        NARROW if narrow else 594,
        366 if narrow else 330,
        "Two counters racing",
        "Six steps of a request with a prompt of 10 tokens and a budget of 4. Computed before the step: "
        f"{', '.join(map(str, before))}: before step 4 its blocks were taken, and two of them were found again. "
        f"Computed in the step: {', '.join(map(str, now))}. Known: {', '.join(map(str, known))}.",
    )
    left, pitch, width = (34, 54, 40) if narrow else (60, 82, 56)

    def height(tokens: float) -> float:
        return 250 - 15 * tokens

    for tokens in (0, 4, 8, 12):
        d.text(left - 12, height(tokens) + 4, str(tokens), size=12, anchor="end", fill=MUTED)
        d.line([(left - 6, height(tokens)), (left + 6 * pitch - 14, height(tokens))], PALE, 1)
    for i in range(6):
        x, middle = left + pitch * i, left + pitch * i + width / 2
        d.rect(x, height(known[i]), width, 15 * (known[i] - before[i] - now[i]), WHITE, PALE)
        d.rect(x, height(before[i]), width, 15 * before[i], BLUE, "none")
        d.rect(x, height(before[i] + now[i]), width, 15 * now[i], ORANGE, "none")
        d.line([(x - 5, height(known[i])), (x + width + 5, height(known[i]))], INK, 2.5)
        d.text(middle, height(before[i] + now[i] / 2) + 5, str(now[i]), size=13, anchor="middle", bold=True)
        d.text(middle, 268, f"step {i}", size=13, anchor="middle")
        first, _, second = names[i].partition(" ") if narrow else (names[i], "", "")
        for j, words in enumerate((first, second)):
            d.text(middle, 286 + 15 * j, words, size=11 if narrow else 13, anchor="middle", fill=MUTED)
        if before[i] + now[i] == known[i]:
            d.text(middle, height(known[i]) - 8, "samples", size=11 if narrow else 13, anchor="middle")
    x = left + 4 * pitch - (pitch - width) / 2
    d.line([(x, 30), (x, 254)], RED, 1.5, "5 4")
    d.text(x, 22, "preempted", size=13, anchor="middle", fill=RED)
    for x, y, fill, words in (
        [(16, 326, BLUE, "computed before"), (170, 326, ORANGE, "computed in this step")]
        if narrow
        else [(60, 306, BLUE, "computed before"), (200, 306, ORANGE, "computed in this step")]
    ):
        d.rect(x, y, 14, 12, fill, "none")
        d.text(x + 20, y + 11, words, size=13)
    x, y = (16, 350) if narrow else (380, 312)
    d.line([(x, y), (x + 20, y)], INK, 2.5)
    d.text(x + 27, y + 5, "known (num_tokens)", size=13)
    return d


def queues(narrow: bool = False) -> Drawing:
    title = "The two queues of the scheduler"
    description = (
        "add_request puts a request into waiting. It is admitted to running, and goes back to waiting when it is "
        "preempted. It leaves when it ends or is aborted."
    )
    if narrow:
        rows: list[list[tuple[str, ...]]] = [[("add_request",)], [("waiting",)], [("*running",)], [("gone",)]]
        links = [
            ("add_request", "waiting", "", "straight"),
            ("waiting", "running", "admitted", "straight"),
            ("running", "waiting", "preempted", "left"),
            ("running", "gone", "ended,\naborted", "straight"),
            ("waiting", "gone", "aborted", "right"),
        ]
        return flow(title, description, rows, links)
    d = Drawing(760, 170, title, description)
    d.box(24, 56, 120, 40, "add_request", fill=PALE)
    d.box(234, 56, 120, 40, "waiting")
    d.box(464, 56, 120, 40, "running", fill=LIGHT)
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


def queues_of_groups(narrow: bool = False) -> Drawing:
    title = "The three queues of sequence groups"
    description = (
        "A prompt that fits goes from waiting to running. A victim with one sequence goes back to waiting; a victim "
        "with several goes to swapped, and from there back to running."
    )
    if narrow:
        rows: list[list[tuple[str, ...]]] = [
            [("add_request",)],
            [("waiting",)],
            [("*running",)],
            [("!swapped",)],
            [("gone",)],
        ]
        links = [
            ("add_request", "waiting", "", "straight"),
            ("waiting", "running", "prompt fits", "straight"),
            ("running", "waiting", "victim, one\nsequence", "left"),
            ("running", "swapped", "victim, several", "straight"),
            ("swapped", "running", "blocks fit\nagain", "left"),
            ("running", "gone", "ended", "right"),
        ]
        return flow(title, description, rows, links)
    d = Drawing(760, 190, title, description)
    d.box(24, 36, 120, 40, "add_request", fill=PALE)
    d.box(214, 36, 120, 40, "waiting")
    d.box(476, 36, 120, 40, "running", fill=LIGHT)
    d.box(476, 128, 120, 40, "swapped", fill=ORANGE)
    d.box(660, 36, 80, 40, "gone", fill=PALE)
    d.arrow((144, 56), (212, 56))
    d.arrow((334, 46), (474, 46), label="prompt fits")
    d.arrow((476, 66), (336, 66))
    d.text(405, 84, "victim, one sequence", size=13, anchor="middle", fill=MUTED)
    d.arrow((506, 76), (506, 126))
    d.text(496, 108, "victim, several sequences", size=13, anchor="end", fill=MUTED)
    d.arrow((566, 128), (566, 78), label="blocks fit again", at=(576, 108))
    d.arrow((596, 56), (658, 56), label="ended")
    return d


def four_schedulers(narrow: bool = False) -> Drawing:
    """The traces p3-four-*.json below one another, on one axis of steps."""
    runs = [
        ("v1", "v1: the running requests first, then what is left of the budget"),
        ("warm-first", "warm_first: a score decides, and it grows while a request waits"),
        ("prefill-first", "prefill_first: a step computes either prompts or decodes"),
        ("sequence-group", "sequence_group: the same steps as long as memory suffices"),
    ]
    traces = {name: json.loads((DOCS / "figures" / f"p3-four-{name}.json").read_text()) for name, _ in runs}
    most = max(len(trace["steps"]) for trace in traces.values())
    ends = {name: len(trace["steps"]) for name, trace in traces.items()}
    margin, left, width, pitch = (12, 32, 16.5, 172) if narrow else (24, 60, 33.0, 142)
    row, bottom = 17, 40 + 4 * pitch - 14
    d = Drawing(
        NARROW if narrow else 760,
        bottom + (76 if narrow else 38),
        "Four schedulers on one axis of steps",
        "The same six requests. "
        + " ".join(f"{name.replace('-', '_')} takes {ends[name]} steps." for name in ends)
        + " In the last two, requests a and b stand still while prompts are computed.",
    )
    for lane, (name, title) in enumerate(runs):
        trace, top = traces[name], (62 if narrow else 40) + pitch * lane
        d.paragraph(margin, top - (34 if narrow else 12), title, bold=True, size=13)
        for at in range(0, most + 1, 5):
            d.line([(left + at * width, top - 4), (left + at * width, top + 104)], LINE, 0.5)
        begins: dict[str, int] = {}
        ended: dict[str, int] = {}
        for step in trace["steps"]:
            for request_id, _ in step["sched"]:
                begins.setdefault(request_id, step["step"])
                ended[request_id] = step["step"]
        for i, request in enumerate(trace["requests"]):
            request_id, y = request["id"], top + i * row
            d.text(left - 10, y + 13, request_id, size=12, anchor="end")
            for step in trace["steps"]:
                at, tokens = step["step"], dict(step["sched"]).get(request_id, 0)
                x = left + at * width
                if tokens:
                    prefill = step["computed"][request_id] < len(request["prompt"])
                    d.rect(x, y, width - 2, row - 3, BLUE if prefill else LIGHT, "none")
                    if prefill:
                        d.text(x + width / 2 - 1, y + 11, str(tokens), size=11, anchor="middle", fill=WHITE)
                elif begins[request_id] < at < ended[request_id]:
                    d.rect(x, y + 5, width - 2, 4, ORANGE, "none")
        end = left + ends[name] * width
        d.line([(end, top - 4), (end, top + 6 * row + 2)], INK, 1.5, "4 3")
        inside = end + 60 > d.width
        x, anchor = (end - 6, "end") if inside else (end + 6, "start")
        d.text(
            x,
            top + 6 * row - 4 if not inside else top + 3 * row,
            f"{ends[name]} steps",
            size=12,
            anchor=anchor,
            bold=True,
        )
    for at in range(0, most + 1, 5):
        d.text(left + at * width, bottom, str(at), size=12, anchor="middle", fill=MUTED)
    d.text(margin - 8 if narrow else margin, bottom, "" if narrow else "step", size=12, fill=MUTED)
    for i, (x, fill, words) in enumerate(
        [
            (60, BLUE, "prefill, with its number of tokens"),
            (310, LIGHT, "decode, one token"),
            (470, ORANGE, "admitted, but not in this step"),
        ]
    ):
        x, y = (margin, bottom + 12 + 20 * i) if narrow else (x, bottom + 12)
        d.rect(x, y, 20, 12, fill, "none")
        d.text(x + 27, y + 11, words, size=12)
    return d


# --- serving ------------------------------------------------------------------------------------------------------


def path_of_a_request(narrow: bool = False) -> Drawing:
    """There above, back below."""
    title = "The way of a request through the server"
    description = (
        "In the front process a request passes HTTP and its fields, the chat template and the tokenizer, the limit of "
        "the queue and the registration. An Add goes to the engine process, whose loop takes commands, runs one step "
        "and sends one message. Back in the front, text is made and stop strings are found, the stream merges what is "
        "unread, and an event goes to the client."
    )
    there = [
        ("HTTP, fields", "protocol.py"),
        ("template, ids", "input_processor.py"),
        ("queue, register", "async_engine.py"),
    ]
    back = [("event", "answers.py"), ("one delta", "async_engine.py"), ("text, stop strings", "output_processor.py")]
    end = "A step never waits for a socket, and a socket never waits for a step."
    if narrow:
        rows: list[list[tuple[str, ...]]] = [
            [("client",)],
            *([(one[0], one[1]), (f"*{two[0]}", two[1])] for one, two in zip(there, back, strict=True)),
            [("all commands", "take()"), ("*one message", "send()")],
            [("!one step", "schedule(), model,", "update")],
        ]
        down = ["client", *(box[0] for box in there), "all commands", "one step"]
        up = ["one step", "one message", *(box[0] for box in reversed(back)), "client"]
        words = {"all commands": "Add, Finish", "one message": "", "text, stop strings": "StepDone"}
        links = [(a, b, words.get(b, ""), "straight") for a, b in [*pairwise(down), *pairwise(up)]]
        return flow(title, description, rows, links, gap=34)
    d = Drawing(760, 300, title, description)
    d.rect(92, 30, 428, 240, PALE, LINE)
    d.text(104, 50, "front process: one event loop", size=13, bold=True)
    d.rect(590, 30, 158, 240, PALE, LINE)
    d.text(602, 50, "engine process", size=13, bold=True)
    d.box(12, 66, 62, 184, "client")
    for y, boxes, fill in ((66, there, WHITE), (190, back, LIGHT)):
        for i, lines in enumerate(boxes):
            d.box(104 + 138 * i, y, 126, 60, *lines, fill=fill, size=12)
    d.box(602, 66, 134, 44, "all commands", "take()", size=12)
    d.box(602, 128, 134, 64, "one step", "schedule(), model,", "update", fill=ORANGE, size=12)
    d.box(602, 210, 134, 40, "one message", "send()", fill=LIGHT, size=12)
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
    d.text(104, 290, f"There above, back below. {end}", size=12)
    return d


def times_of_requests(narrow: bool = False) -> Drawing:
    """What the metrics count, of two requests of the recorded run."""
    times = json.loads((DOCS / "figures" / "serving.json").read_text(encoding="utf-8"))["times"]
    d = Drawing(
        NARROW if narrow else 760,
        456 if narrow else 344,
        "The times of two requests of the recorded run",
        "; ".join(
            f"{name} arrives at {times[name]['arrival']}, is first in a step at {times[name]['scheduled']} and gets "
            f"its tokens at {', '.join(map(str, times[name]['tokens']))}"
            for name in ("e", "d")
        )
        + ".",
    )
    x = Axis([4, 14], 30, 346) if narrow else Axis([4, 14], 70, 724)
    left, bottom, pitch = (8, 368, 44) if narrow else (24, 292, 28)
    for tick in range(4, 15):
        d.line([(x(tick), 28), (x(tick), bottom)], PALE, 1)
        d.text(x(tick), bottom + 16, str(tick), size=12, anchor="middle", fill=MUTED)
    d.text(left if not narrow else 8, bottom + 16 if not narrow else 22, "clock", size=12, fill=MUTED)
    for top, name in ((46, "e"), (216 if narrow else 178, "d")):
        arrival, scheduled, tokens = (times[name][key] for key in ("arrival", "scheduled", "tokens"))
        d.text(left, top + 5, name, bold=True)
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
            y = top + 18 + pitch * row
            d.rect(x(start) + 1, y, x(end) - x(start) - 2, 22, LIGHT if words in ("TTFT", "ITL") else WHITE, LINE)
            fits = x(end) - x(start) > 7 * len(words) + 10
            place = y + 15 if fits else y + 36
            d.text((x(start) + x(end)) / 2, place, f"{words} {end - start}", size=12 if fits else 11, anchor="middle")
    y = bottom + 31
    d.line([(left + 6, y - 5), (left + 6, y + 5)], INK, 2.5)
    d.text(left + 14, y + 4, "arrives", size=12)
    d.rect(left + 84, y - 5, 10, 10, ORANGE)
    d.text(left + 100, y + 4, "first in a step", size=12)
    place, y = (left + 6, y + 22) if narrow else (left + 216, y)
    d.circle(place, y, 5, BLUE)
    d.text(place + 12, y + 4, "the step that brings a token is over", size=12)
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


def curve(d: Drawing, points: list[Point], colour: str, dash: str = "") -> None:
    d.line(points, colour, 2.5, dash)
    for x, y in points:
        d.circle(x, y, 3.5, colour)


def scheduler_cost(narrow: bool = False) -> Drawing:
    rows = table("scheduler", "vLLM schedule µs")
    running = [value(row["running"]) for row in rows]
    ours = [value(row["total µs"]) for row in rows]
    theirs = [value(row["total µs 2"]) for row in rows]
    d = Drawing(
        NARROW if narrow else 760,
        350,
        "The cost of a scheduling step",
        f"Log-log plot. From {running[0]:,g} to {running[-1]:,g} running requests a step of ours takes {ours[0]:,g} to "
        f"{ours[-1]:,g} microseconds, one of vLLM's {theirs[0]:,g} to {theirs[-1]:,g}.",
    )
    x = Axis(running, 64, 334, log=True) if narrow else Axis(running, 80, 660, log=True)
    y = Axis([1, 131072], 290, 44, log=True)
    ticks = [1.0, 16, 64, 256, 1024, 4096] if narrow else running
    axes(d, x, y, ticks, [1, 10, 100, 1000, 10_000, 100_000], "running requests, each of which decodes", "µs a step")
    for name, costs, colour, dash in (("vLLM", theirs, AMBER, "7 4"), ("mini_vllm", ours, BLUE, "")):
        curve(d, [(x(a), y(b)) for a, b in zip(running, costs, strict=True)], colour, dash)
        if narrow:
            d.text(x.end - 4, y(costs[-1]) + (92 if colour == BLUE else -12), name, size=13, bold=True, anchor="end")
        else:
            d.text(x.end + 10, y(costs[-1]) + 4, name, size=13, bold=True)
    return d


def roofline(narrow: bool = False) -> Drawing:
    rows = table("step_cost", "| rows | GFLOP/s | roof |")
    tokens = [value(row["rows"]) for row in rows]
    rates, roof = ([value(row[name]) for row in rows] for name in ("GFLOP/s", "roof"))
    d = Drawing(
        NARROW if narrow else 760,
        350,
        "The roofline of a processor",
        f"Log-log plot of the linear layers. With {tokens[0]:g} row they reach {rates[0]:,g} GFLOP/s of {roof[0]:,g} "
        f"that the memory allows, with {tokens[-1]:g} rows {rates[-1]:,g} of {roof[-1]:,g} that the arithmetic allows.",
    )
    x = Axis(tokens, 64, 334, log=True) if narrow else Axis(tokens, 80, 640, log=True)
    y = Axis([10, 1000], 290, 44, log=True)
    axes(d, x, y, tokens[::2] if narrow else tokens, [10, 100, 1000], "rows, that is, tokens in the step", "GFLOP/s")
    for rate, colour, dash in ((roof, LINE, "7 4"), (rates, BLUE, "")):
        curve(d, [(x(a), y(b)) for a, b in zip(tokens, rate, strict=True)], colour, dash)
    d.text(x(tokens[2]), y(roof[2]) - 14, "the roof", size=13, anchor="end", fill=MUTED)
    if narrow:
        d.text(x.end - 4, y(rates[-1]) + 36, "measured", size=13, bold=True, anchor="end")
    else:
        d.text(x.end + 10, y(rates[-1]) + 4, "measured", size=13, bold=True)
    return d


def decode_by_context(narrow: bool = False) -> Drawing:
    rows = [row for row in table("engine", "| tokens a second |") if row["tokens a second"].startswith("decode, 8 at")]
    contexts = [value(row["tokens a second"].partition(" at ")[2]) for row in rows]
    rates = {name: [value(row[name]) for row in rows] for name in ("vLLM", "mini_vllm")}
    d = Drawing(
        NARROW if narrow else 760,
        350,
        "Decoding behind a context",
        "Log-log plot of output tokens a second of 8 requests on a CPU, by context. "
        + " ".join(
            f"{name}: {', '.join(f'{rate:g} at {n:,g}' for n, rate in zip(contexts, each, strict=True))}."
            for name, each in rates.items()
        ),
    )
    x = Axis(contexts, 64, 334, log=True) if narrow else Axis(contexts, 80, 640, log=True)
    y = Axis([1, 2 * max(max(each) for each in rates.values())], 290, 44, log=True)
    axes(d, x, y, contexts, [1, 10, 100], "context of each of 8 requests, in tokens", "output tokens / s")
    for name, colour, dash in (("vLLM", AMBER, "7 4"), ("mini_vllm", BLUE, "")):
        curve(d, [(x(a), y(b)) for a, b in zip(contexts, rates[name], strict=True)], colour, dash)
        at, below = (x.end - 4, 22 if name == "vLLM" else -14) if narrow else (x.end + 10, 4)
        d.text(at, y(rates[name][-1]) + below, name, size=13, bold=True, anchor="end" if narrow else "start")
    return d


def engines(narrow: bool = False) -> Drawing:
    rows = table("engine", "| engine | output tok/s")
    pitch = 70 if narrow else 52
    bottom = 40 + pitch * len(rows)
    d = Drawing(
        NARROW if narrow else 760,
        bottom + 48,
        "Output tokens a second of four engines",
        "Bars with ranges: "
        + "; ".join(f"{row['engine'].partition(' (')[0]} {row['output tok/s']}" for row in rows)
        + ".",
    )
    x = Axis([0, 100], 20, 340) if narrow else Axis([0, 100], 300, 720)
    for tick in (0, 25, 50, 75, 100):
        d.line([(x(tick), 28), (x(tick), bottom)], LINE if tick == 0 else PALE, 1)
        d.text(x(tick), bottom + 18, str(tick), size=12, anchor="middle", fill=MUTED)
    d.text((x.start + x.end) / 2, bottom + 38, "output tokens / s, median and range", size=13, anchor="middle")
    for i, row in enumerate(rows):
        y = 40 + pitch * i + (20 if narrow else 0)
        name, _, versions = row["engine"].partition(" (")
        own, version = name.startswith("mini"), versions.rstrip(")").partition(",")[0]
        if narrow:
            d.text(20, y - 6, f"{name}, {version}", size=12, bold=own)
        else:
            d.text(290, y + 15, name.replace("continuous batching", "cont. batching"), size=13, anchor="end", bold=own)
            d.text(290, y + 31, version, size=11, anchor="end", fill=MUTED)
        d.rect(x(0), y, x(value(row["output tok/s"])) - x(0), 32, BLUE if own else LIGHT, "none")
        low, high = (float(part) for part in row["range"].split(" to "))
        d.line([(x(low), y + 16), (x(high), y + 16)], INK, 1.5)
        for end in (low, high):
            d.line([(x(end), y + 10), (x(end), y + 22)], INK, 1.5)
    return d


def goodput(narrow: bool = False) -> Drawing:
    rows = [
        row
        for row in table("policies", "| arrivals | policy | good %, by gaps")
        if row["policy"] in ("v1", "prefill_first", "warm_first")
    ]
    loads = list(dict.fromkeys(row["arrivals"] for row in rows if "over capacity" not in row["policy"]))
    rows = [row for row in rows if row["arrivals"] in loads]
    top = 66 if narrow else 44
    height = top + 36 + 31 * len(rows) + (42 if narrow else 24) * len(loads)
    d = Drawing(
        NARROW if narrow else 760,
        height + 30,
        "Good requests, by two definitions",
        "; ".join(
            f"{row['arrivals']}, {row['policy']}: {row['good %, by gaps']} % by gaps, {row['good %, by TPOT']} by TPOT"
            for row in rows
        ),
    )
    left = 12 if narrow else 24
    x = Axis([0, 100], 104, 342) if narrow else Axis([0, 100], 160, 720)
    names = ["by gaps: 99 % of a request's gaps within 0.1 s", "by TPOT: the mean of its gaps within 0.1 s"]
    for i, (colour, words) in enumerate(zip((BLUE, AMBER), names, strict=True)):
        place, y = (left + 6, 24 + 22 * i) if narrow else (34 + 366 * i, 24)
        d.circle(place, y, 6, colour)
        d.text(place + 12, y + 5, words, size=13)
    y, last = float(top), ""
    for tick in (0, 25, 50, 75, 100):
        d.line([(x(tick), top), (x(tick), height - 16)], PALE if tick else LINE, 1)
        d.text(x(tick), height, str(tick), size=12, anchor="middle", fill=MUTED)
    for row in rows:
        if row["arrivals"] != last:
            last = row["arrivals"]
            y += 42 if narrow else 24
            d.paragraph(left, y - (22 if narrow and len(last) > 46 else 4), last, size=13, bold=True)
        d.text(x.start - 8, y + 20, row["policy"], size=13, anchor="end")
        for place, name, colour in [(y + 11, "good %, by gaps", BLUE), (y + 21, "good %, by TPOT", AMBER)]:
            middle, half = value(row[name]), spread(row[name])
            d.line([(x(max(0, middle - half)), place), (x(min(100, middle + half)), place)], colour, 2.5)
            d.circle(x(middle), place, 5, colour)
        y += 31
    d.text((x.start + x.end) / 2, height + 20, "requests that meet the SLO, %", size=13, anchor="middle")
    return d


def verdicts(narrow: bool = False) -> Drawing:
    rows = table("labs", "a part: median s")
    pitch = 34 if narrow else 19
    bottom = 48 + pitch * len(rows)
    d = Drawing(
        NARROW if narrow else 760,
        bottom + 64,
        "Seconds from a save to a verdict",
        "; ".join(
            f"{row['lab']}: {row['a part: median s']} s on a part, {row['all: median s']} s on all" for row in rows
        ),
    )
    x = Axis([0, 5.5], 16, 344) if narrow else Axis([0, 5.5], 370, 730)
    for place, colour, words in ((x.start + 4, BLUE, "a part of the cases"), (x.start + 190, AMBER, "all of them")):
        d.circle(place, 22, 5, colour)
        d.text(place + 12, 27, words, size=13)
    for tick in range(6):
        d.line([(x(tick), 38), (x(tick), bottom)], PALE if tick else LINE, 1)
        d.text(x(tick), bottom + 18, str(tick), size=12, anchor="middle", fill=MUTED)
    for i, row in enumerate(rows):
        y = 50 + pitch * i + (16 if narrow else 0)
        if narrow:
            d.text(16, y - 8, row["lab"], size=12)
        else:
            d.text(358, y + 4, row["lab"], size=12, anchor="end")
        for part, colour in [("a part", BLUE), ("all", AMBER)]:
            median, p95 = value(row[f"{part}: median s"]), value(row["p95 s" if part == "a part" else "p95 s 2"])
            d.line([(x(median), y), (x(p95), y)], colour, 2)
            d.circle(x(median), y, 4.5, colour)
    words = "seconds: the dot is the median, the line ends at the 95th percentile"
    d.paragraph(16 if narrow else 230, bottom + 40, words)
    return d


def mask_of_a_grammar(narrow: bool = False) -> Drawing:
    """A schema, its automaton, the mask in one of its states, and the token that is chosen. As in the cell below it."""
    texts, state = ['"yes"', '"no"'], '"'
    vocabulary = dict(zip(['"', "y", "n", "es", "yes", 'no"', "o", '"y', "KV", "<end>"], LIKING, strict=True))
    allowed = [token for token in vocabulary if any(text.startswith(state + token) for text in texts)]
    chosen = max(allowed, key=vocabulary.__getitem__)
    d = Drawing(
        NARROW if narrow else 760,
        716 if narrow else 372,
        "From a schema to a token",
        f"The schema allows two texts. Its automaton has a state for each beginning of one. After the first quotation "
        f"mark {len(allowed)} of {len(vocabulary)} tokens lead on: {', '.join(allowed)}. The logits of the others "
        f"become minus infinity, and {chosen} is chosen, though KV had the largest logit.",
    )
    left, pitch = (16, 60) if narrow else (24, 78)
    d.text(left, 34, "Schema", bold=True)
    d.box(left, 48, 190, 34, '{"enum": ["yes", "no"]}', fill=PALE)
    d.text(left, 122, "Automaton: a state for each beginning" + ("" if narrow else " of a text"), bold=True)

    def place(beginning: str) -> Point:
        """Of the middle of a state."""
        return left + 16 + pitch * len(beginning), 210 if len(beginning) < 2 else 168 + 84 * (beginning[1] == "n")

    states_ = sorted({text[:i] for text in texts for i in range(len(text) + 1)})
    for name in states_[1:]:
        (x1, y1), (x2, y2) = place(name[:-1]), place(name)
        corner = [(x1, y2)] if y1 != y2 else []
        d.arrow((x1, y1), *corner, (x2 - 14, y2), label=name[-1], at=((x1 + x2) / 2 - 4, y2 - 7))
    for name in states_:
        d.circle(*place(name), 14, INK)
        d.circle(*place(name), 12.5, BLUE if name == state else WHITE)
        if name in texts:
            d.circle(*place(name), 7, INK)
    words = (
        "Dark: the state after the first quotation mark. A dot: a text ends here. A token may cross several states: "
        'from the dark one, the token no" leads straight to an end.'
    )
    d.paragraph(left, 296, words, 0 if narrow else 60)
    x, top = (24, 394) if narrow else (500, 34)
    d.text(x, top, "Mask of the dark state", bold=True)
    d.text(x + 90, top + 24, "logit", size=12, anchor="middle", fill=MUTED)
    d.text(x + 172, top + 24, "masked", size=12, anchor="middle", fill=MUTED)
    for i, (token, logit) in enumerate(vocabulary.items()):
        y = top + 34 + 28 * i
        d.box(x, y, 60, 24, token, fill=ORANGE if token == chosen else WHITE)
        d.text(x + 90, y + 17, str(logit), anchor="middle")
        d.text(x + 172, y + 17, str(logit) if token in allowed else "-∞", anchor="middle", bold=token == chosen)
    return d


# --- phase 5 ------------------------------------------------------------------------------------------------------


def verification(narrow: bool = False) -> Drawing:
    """One step that verifies four drafts, of which one is right."""
    known, drafts, answers = "block", ["holds", "keys", ".", "a"], ["holds", "values", ".", "the", "block"]
    num_right = next(i for i, (draft, answer) in enumerate(zip(drafts, answers, strict=False)) if draft != answer)
    d = Drawing(
        NARROW if narrow else 760,
        390 if narrow else 318,
        "One step that verifies four drafts",
        f"The step computes the newest token, {known}, and the drafts {', '.join(drafts)}. For each of these "
        f"{len(answers)} tokens the model says which token follows: {', '.join(answers)}. {num_right} draft is right. "
        f"So the request gets {num_right + 1} tokens, {' and '.join(answers[: num_right + 1])}, and the other rows "
        "are thrown away.",
    )
    start, pitch, width = (12, 70, 56) if narrow else (150, 120, 96)
    shift = 24 if narrow else 0
    d.paragraph(12 if narrow else 24, 30, "The text so far ends in: a block holds keys. a block", bold=True, size=13)
    labels = ((72, "computed"), (96, "in this step"), (156, "the model says"), (180, "what follows"), (246, "so"))
    for y, words in () if narrow else labels:
        d.text(24, y, words, size=13, fill=MUTED)
    if narrow:
        d.text(12, 72, "computed in this step:", size=12, fill=MUTED)
        d.text(12, 158, "the model says what follows:", size=12, fill=MUTED)
    for i, answer in enumerate(answers):
        x, token = start + pitch * i, (known, *drafts)[i]
        counts = i <= num_right
        d.box(x, 58 + shift, width, 44, token, "draft" if i else "known", fill=ORANGE if i else BLUE)
        y = 142 + shift
        if not narrow:
            d.arrow((x + width / 2, 102), (x + width / 2, 142))
        d.box(x, y, width, 44, answer, fill=GREEN if counts else WHITE)
        if i < len(drafts):
            is_right = answer == drafts[i]
            sign, ink = "=" if is_right else "≠", INK if counts else LINE
            d.text(x + (width + pitch) / 2, y + 28, sign, size=20, anchor="middle", bold=True, fill=ink)
        words, ink = f"token {i + 1}" if counts else "not used", INK if counts else MUTED
        d.text(x + width / 2, y + (64 if narrow else 74), words, size=12 if narrow else 13, anchor="middle", fill=ink)
    y = 262.0 if narrow else 246.0
    for line in (
        f"The first draft is right, so the draft's own row counts, too: {answers[1]}.",
        "The second draft is wrong. What the model says after it belongs to another text.",
        f"The request gets {num_right + 1} tokens from one step. {len(drafts) - num_right} slots will be overwritten.",
    ):
        y = d.paragraph(12 if narrow else 150, y, line) + (4 if narrow else 1)
    return d


def gains_of_drafts(narrow: bool = False) -> Drawing:
    """Of Qwen3-0.6B's shape: measured, and as the chapter computes it from what a step with drafts costs."""
    rows, k = table("speculation", "requests, qwen"), 4
    colours = {1: BLUE, 4: AMBER, 16: RED}
    d = Drawing(
        NARROW if narrow else 760,
        350,
        "What drafts bring",
        "Speed with four drafts, divided by the speed without, by acceptance, for 1, 4 and 16 requests. Points are "
        "measured. Lines are the tokens of a step divided by what it costs, which the same run measured with drafts "
        "that are never right. At a low acceptance a request soon asks for no drafts. The points of 4 and 16 requests "
        "then lie above their lines.",
    )
    x, y = Axis([0, 1], 56, 330) if narrow else Axis([0, 1], 80, 600), Axis([0, k + 1], 290, 44)
    axes(d, x, y, [0, 0.2, 0.4, 0.6, 0.8, 1], list(range(k + 2)), "acceptance of a draft", "times as fast as without")
    d.line([(x.start, y(1)), (x.end, y(1))], INK, 1)
    for n, colour in colours.items():
        of_n = {row["drafts"]: value(row["ratio"]) for row in rows if row["requests, qwen"] == str(n)}
        share = of_n[f"always {k}, acceptance 0"]
        ideal = [(x(a / 50), y(share * sum((a / 50) ** i for i in range(k + 1)))) for a in range(51)]
        d.line(ideal, colour, 1.5)
        name, at = f"{n} request{'s' * (n > 1)}", -10 if narrow else 14
        d.text(
            ideal[-1][0] + at,
            ideal[-1][1] + 4,
            name,
            size=13,
            bold=True,
            fill=colour,
            anchor="end" if narrow else "start",
        )
        for words, ratio in of_n.items():
            if words.startswith("acceptance"):
                d.circle(x(float(words.split()[1])), y(ratio), 4.5, colour)
    return d


PICTURES: dict[str, Callable[[bool], Drawing]] = {
    f"{PHASE_1}/address": address,
    f"{PHASE_1}/slots": slots,
    f"{PHASE_1}/online-softmax": online_softmax,
    f"{PHASE_1}/grid": grid,
    f"{PHASE_1}/tile": tile,
    f"{PHASE_1}/split": split,
    f"{PHASE_1}/waste": waste,
    f"{PHASE_1}/step": step_of_vllm,
    f"{PHASE_2}/classes": classes,
    f"{PHASE_2}/structures": structures,
    f"{PHASE_2}/states": states,
    f"{PHASE_3}/two-counters": two_counters,
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
    f"{PHASE_5}/gains": gains_of_drafts,
}


def main() -> int:
    """The exit status."""
    drawn = {DOCS / f"{name}.svg": draw(False).svg() for name, draw in PICTURES.items()}
    drawn[DOCS / "assets" / "card.svg"] = card().svg()
    stale = [file for file, text in drawn.items() if not file.exists() or file.read_text(encoding="utf-8") != text]
    for file in stale:
        print(f"{file.relative_to(ROOT).as_posix()}: {'stale' if '--check' in sys.argv else 'written'}")
        if "--check" not in sys.argv:
            file.parent.mkdir(exist_ok=True)
            file.write_text(drawn[file], encoding="utf-8")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
