"""The spans of a run as text: a line for each request, time to the right."""

from collections import defaultdict

from rich.text import Text

from mini_vllm.observe.timeline import MARKS as OF_TRACES
from mini_vllm.observe.timeline import Mark
from mini_vllm.simulator.timeline.spans import Spans

MARKS = {
    "queue": Mark("·", ".", "bright_black", "waits in a queue"),
    "disk": OF_TRACES["loading"]._replace(meaning="waits for the disk"),
    "load": OF_TRACES["swapped"]._replace(meaning="step that loads from main memory"),
    "prefill": Mark("█", "#", "cyan", "computes its prompt"),
    "transfer": Mark("→", ">", "magenta", "is sent to a decode worker"),
    "decode": Mark("▪", "o", "blue", "decodes"),
}
NOTHING = Mark(" ", " ", "", "")


def render(spans: Spans, *, width: int = 80, ascii_only: bool = False) -> Text:
    """A column has the mark of what took most of its time; what is noted of no part of a request's
    life is a queue. A legend of the marks that occur ends it.
    """
    text = Text(no_wrap=True)
    end = max((span.end for span in spans.spans), default=0.0)
    begin = min(spans.arrivals.values(), default=0.0)
    label_width = len(str(spans.num_requests)) + 1
    seconds = (end - begin) / max(width - label_width, 10) or 1.0
    used: set[str] = set()
    for index in sorted(spans.arrivals):
        row = _row(spans, index, begin, seconds, max(width - label_width, 10))
        text.append(f"{index:<{label_width}}")
        for kind in row:
            mark = MARKS.get(kind, NOTHING)
            text.append(mark.ascii if ascii_only else mark.character, mark.style)
        text.rstrip()
        text.append("\n")
        used.update(row)
    text.append(f"{begin:.3g} s to {end:.3g} s, {seconds:.3g} s a column\n", "bright_black")
    for kind, mark in MARKS.items():
        if kind in used:
            text.append(mark.ascii if ascii_only else mark.character, mark.style)
            text.append(f" {mark.meaning}\n")
    text.rstrip()
    return text


def _row(spans: Spans, index: int, begin: float, seconds: float, num_columns: int) -> list[str]:
    """The kind of each column; "" before its arrival and behind its last span."""
    own = [span for span in spans.spans if span.number == index]
    first = spans.arrivals[index]
    last = max((span.end for span in own), default=first)
    row = []
    for column in range(num_columns):
        left = begin + column * seconds
        shares: defaultdict[str, float] = defaultdict(float)
        for span in own:
            shares[span.kind] += max(min(span.end, left + seconds) - max(span.start, left), 0)
        alive = min(last, left + seconds) - max(first, left)
        shares["queue"] += alive - sum(shares.values())
        row.append(max(shares, key=shares.__getitem__) if alive > 0 else "")
    return row
