"""The pictures of phase 1."""

from tools.book.drawing import (
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
    axes,
    curve,
)
from tools.book.pictures.data import read_table, value


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
    kinds = {"slots with a token": BLUE, "reserved": LIGHT, "wasted": RED, "stranded": ORANGE, "free": PALE}
    chosen = ("stretch of 8,192", "next power", "exactly", "of 1,024", "of 256", "of 64", "of 16")
    all_rows = read_table("waste", "| each request holds | slots with a token")
    rows = [row for words in chosen for row in all_rows if words in row["each request holds"]]
    d = Drawing(
        NARROW if narrow else 760,
        470 if narrow else 332,
        "What the KV memory holds",
        "Stacked bars. "
        + "; ".join(
            f"{row['each request holds']}: {row['slots with a token, %']} per cent hold a token" for row in rows
        )
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
        d.text(end, y - 5 if narrow else y + 17, row["requests running"], size=13, anchor="end")
        x = float(start)
        for kind, fill in kinds.items():
            share = value(row[f"{kind}, %"]) * width / 100
            if share:
                d.rect(x, y, share, 24, fill, "none")
            if share > 26:
                ink = WHITE if fill in (BLUE, RED) else INK
                d.text(x + share / 2, y + 17, row[f"{kind}, %"], size=12, anchor="middle", fill=ink)
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


def roofline(narrow: bool = False) -> Drawing:
    rows = read_table("step_cost", "| rows | GFLOP/s | roof, GFLOP/s |")
    tokens = [value(row["rows"]) for row in rows]
    rates, roof = ([value(row[name]) for row in rows] for name in ("GFLOP/s", "roof, GFLOP/s"))
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


PICTURES = {
    "phase-01-paged-kv/address": address,
    "phase-01-paged-kv/slots": slots,
    "phase-01-paged-kv/online-softmax": online_softmax,
    "phase-01-paged-kv/grid": grid,
    "phase-01-paged-kv/tile": tile,
    "phase-01-paged-kv/split": split,
    "phase-01-paged-kv/waste": waste,
    "phase-01-paged-kv/step": step_of_vllm,
    "phase-01-paged-kv/roofline": roofline,
}
