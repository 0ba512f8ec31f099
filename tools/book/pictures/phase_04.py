"""The pictures of serving."""

from itertools import pairwise

from tools.book.drawing import (
    BLUE,
    INK,
    LIGHT,
    LINE,
    MUTED,
    NARROW,
    ORANGE,
    PALE,
    WHITE,
    Axis,
    Drawing,
    Point,
    flow,
)
from tools.book.pictures.data import read_figure

LIKING = (3, 2, 5, 3, 4, 6, 0, 2, 9, 7)  # logits of the cell "mask" in docs/serving.md


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
    times = read_figure("serving")["times"]
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


PICTURES = {
    "serving/path": path_of_a_request,
    "serving/times": times_of_requests,
    "serving/mask": mask_of_a_grammar,
}
