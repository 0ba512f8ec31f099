"""The pictures of phase 7."""

from labkit.cli.step_times import BEGIN_MS, DEVICE_MS, END_MS, Times
from tools.book.drawing import BLUE, INK, LIGHT, MUTED, NARROW, ORANGE, WHITE, Drawing

SHOWN = 4  # steps


def time_lines(narrow: bool = False) -> Drawing:
    """Host and device of the first steps: one step at a time, and one step ahead."""
    plain, ahead = run(most_in_flight=1), run(most_in_flight=2)
    d = Drawing(
        NARROW if narrow else 760,
        330,
        "One step at a time, and one step ahead",
        f"A step takes {DEVICE_MS} ms of the device, and {BEGIN_MS + END_MS} ms of the host. One step at a time the "
        f"device waits for the host, and {SHOWN} steps end after {plain.device[SHOWN - 1][1]} ms. One step ahead the "
        f"host decides a step while the one before it computes, and {SHOWN} steps end after "
        f"{ahead.device[SHOWN - 1][1]} ms.",
    )
    left = 64 if narrow else 90
    scale = (d.width - left - 14) / (plain.device[SHOWN - 1][1] + END_MS)
    for top, name, times in ((16, "one step at a time", plain), (156, "one step ahead", ahead)):
        d.text(14, top + 14, name, bold=True)
        for y, lane, work in ((top + 28, "host", times.host), (top + 72, "device", times.device)):
            d.text(14, y + 22, lane, size=13, fill=MUTED)
            for begin, end, number in work:
                if number <= SHOWN:
                    fill = (BLUE if number % 2 else LIGHT) if lane == "device" else ORANGE
                    d.rect(left + begin * scale, y, (end - begin) * scale, 34, fill)
                    ink = WHITE if fill == BLUE else INK
                    middle = left + (begin + end) / 2 * scale
                    d.text(middle, y + 22, str(number), size=13, anchor="middle", fill=ink)
    words = "A number is a step. The host decides it (wide), and takes in its tokens (narrow)."
    d.end(d.paragraph(14, 304, words))
    return d


def run(most_in_flight: int) -> Times:
    times, in_flight, begun = Times(), list[int](), 0
    while len(times.device) < SHOWN + 2:
        while len(in_flight) < most_in_flight:
            begun += 1
            times.begin(begun)
            in_flight.append(begun)
        times.end(in_flight.pop(0))
    return times


PICTURES = {"phase-07-fast-steps/time-lines": time_lines}
