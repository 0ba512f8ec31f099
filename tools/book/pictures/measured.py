"""The pictures of what was measured."""

from tools.book.drawing import (
    AMBER,
    BLUE,
    INK,
    LIGHT,
    LINE,
    MUTED,
    NARROW,
    PALE,
    RED,
    Axis,
    Drawing,
    axes,
    curve,
)
from tools.book.pictures.data import read_table, spread, value

DASHES = {1: "2 4", 8: "7 4", 64: "12 3", 256: ""}  # a line says by its dashes, too, of how many decodes it is


def scheduler_cost(narrow: bool = False) -> Drawing:
    rows = read_table("scheduler", "vLLM schedule, µs")
    running = [value(row["requests running"]) for row in rows]
    ours = [value(row["total, µs"]) for row in rows]
    theirs = [value(row["vLLM total, µs"]) for row in rows]
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


def decode_by_context(narrow: bool = False) -> Drawing:
    measured = read_table("engine", "| tokens a second |")
    rows = [row for row in measured if row["tokens a second"].startswith("decode, 8 at")]
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
    rows = read_table("engine", "| engine | output, tok/s")
    pitch = 70 if narrow else 52
    bottom = 40 + pitch * len(rows)
    d = Drawing(
        NARROW if narrow else 760,
        bottom + 48,
        "Output tokens a second of four engines",
        "Bars with ranges: "
        + "; ".join(f"{row['engine'].partition(' (')[0]} {row['output, tok/s']}" for row in rows)
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
        d.rect(x(0), y, x(value(row["output, tok/s"])) - x(0), 32, BLUE if own else LIGHT, "none")
        low, high = (float(part) for part in row["range, tok/s"].split(" to "))
        d.line([(x(low), y + 16), (x(high), y + 16)], INK, 1.5)
        for end in (low, high):
            d.line([(x(end), y + 10), (x(end), y + 22)], INK, 1.5)
    return d


def goodput(narrow: bool = False) -> Drawing:
    rows = [
        row
        for row in read_table("policies", "| arrivals | policy | good %, by gaps")
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
    rows = read_table("labs", "a part: median, s")
    pitch = 34 if narrow else 19
    bottom = 48 + pitch * len(rows)
    d = Drawing(
        NARROW if narrow else 760,
        bottom + 64,
        "Seconds from a save to a verdict",
        "; ".join(
            f"{row['lab']}: {row['a part: median, s']} s on a part, {row['all: median, s']} s on all" for row in rows
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
            median, p95 = (value(row[f"{part}: {figure}, s"]) for figure in ("median", "p95"))
            d.line([(x(median), y), (x(p95), y)], colour, 2)
            d.circle(x(median), y, 4.5, colour)
    words = "seconds: the dot is the median, the line ends at the 95th percentile"
    d.paragraph(16 if narrow else 230, bottom + 40, words)
    return d


def decode_bandwidth(narrow: bool = False) -> Drawing:
    """Three plots beside each other, on a phone below each other: a model each, with a line a batch."""
    models = ("Qwen3-0.6B", "Llama-3.1-8B", "Qwen3-32B")
    batches = {1: RED, 8: AMBER, 64: BLUE, 256: INK}
    d = Drawing(
        NARROW if narrow else 760,
        750 if narrow else 320,
        "The bandwidth of a decode on a GPU",
        "Share of the bandwidth that a copy has, in per cent, against the context, for batches of "
        f"{', '.join(map(str, batches))} decodes. ",
    )
    d.text(16, 26, f"share of a copy's bandwidth, %{', by decodes:' if narrow else ''}", size=13)
    x_of_name = 16.0 if narrow else 330.0
    for batch, colour in batches.items():
        y = 48 if narrow else 26
        d.line([(x_of_name, y - 4), (x_of_name + 16, y - 4)], colour, 2.5, DASHES[batch])
        x_of_name += 20
        words = f"{batch}" if narrow else f"{batch} decode{'s' * (batch > 1)}"
        d.text(x_of_name, y, words, size=12)
        x_of_name += 7 * len(words) + (14 if narrow else 2)
    for i, model in enumerate(models):
        left, top = (44, 84 + 232 * i) if narrow else (44 + 240 * i, 62)
        rows = read_table("attention_cuda", "| batch | µs |", model)
        points = {
            batch: [
                (value(row["batch"].partition(" x ")[2]), value(row["of the copy"].rstrip("%")))
                for row in rows
                if row["batch"].startswith(f"decode {batch} x ")
            ]
            for batch in batches
        }
        contexts = [context for context, _ in points[1]]
        x = Axis(contexts, left, left + (280 if narrow else 186), log=True)
        y = Axis([0, 105], top + (160 if narrow else 200), top)
        d.text((x.start + x.end) / 2, top - 12, model, size=13, bold=True, anchor="middle")
        axes(d, x, y, contexts, [0, 25, 50, 75, 100], "tokens of context", "")
        for batch, shares in points.items():
            curve(d, [(x(context), y(share)) for context, share in shares], batches[batch], DASHES[batch])
            d.description += f"{model}, {batch}: {', '.join(f'{share:g} at {n:,g}' for n, share in shares)}. "
    return d


PICTURES = {
    "measured/gpu": decode_bandwidth,
    "measured/scheduler": scheduler_cost,
    "measured/growth": decode_by_context,
    "measured/engines": engines,
    "measured/goodput": goodput,
    "measured/verdicts": verdicts,
}
