"""What a link to the site shows."""

from tools.book.drawing import (
    LIGHT,
    ORANGE,
    WHITE,
    Drawing,
)
from tools.book.pictures.data import read_figure


def card() -> Drawing:
    """What a link to the site shows. docs/assets/card.png is this picture as Chromium draws it, 1200 x 630."""
    d = Drawing(1200, 630, "mini_vllm", "The name of the course, and two rows of steps in the manner of its figures.")
    d.rect(0, 0, 1200, 630, "#132433", "none")
    d.text(80, 190, "mini_vllm", size=104, bold=True, fill=WHITE)
    d.text(80, 258, "How an LLM inference engine works,", size=42, fill=LIGHT)
    d.text(80, 312, "learned by building one", size=42, fill=LIGHT)
    trace = read_figure("p3-four-v1")
    for i, request in enumerate(trace["requests"]):
        for step in trace["steps"]:
            if tokens := dict(step["sched"]).get(request["id"]):
                x, y = 80 + 74 * step["step"], 372 + 34 * i
                prefill = step["computed"][request["id"]] < len(request["prompt"])
                d.rect(x, y, 68, 26, ORANGE if prefill else "#5fc7e4", "none")
                if prefill:
                    d.text(x + 34, y + 20, str(tokens), size=20, anchor="middle", bold=True)
    return d
