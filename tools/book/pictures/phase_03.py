"""The pictures of phase 3."""

from tools.book.drawing import (
    BLUE,
    INK,
    LIGHT,
    LINE,
    MUTED,
    NARROW,
    ORANGE,
    PALE,
    RED,
    WHITE,
    Drawing,
    flow,
    lanes,
)
from tools.book.pictures.data import read_figure


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


def step_of_vllm(narrow: bool = False) -> Drawing:
    """The order of a step in the deep dive."""
    title = "A step of vLLM's engine"
    description = (
        "schedule decides. execute_model computes, and the masks are prepared meanwhile. sample_tokens makes tokens of "
        "logits. _process_aborts_queue removes what was aborted in the meantime. update_from_output appends tokens and "
        "ends requests. In vLLM the counters move in schedule, in mini_vllm in update_from_output."
    )
    if narrow:
        rows: list[list[tuple[str, ...]]] = [
            [("*schedule", "decides; in vLLM", "the counters move")],
            [("execute_model", "computes the rows"), ("masks", "of structured output")],
            [("sample_tokens", "logits to tokens")],
            [("*aborts", "that came meanwhile")],
            [("*update", "from the output; here", "the counters move")],
        ]
        links = [
            ("schedule", "execute_model", "", "straight"),
            ("schedule", "masks", "", "straight"),
            ("execute_model", "sample_tokens", "", "straight"),
            ("masks", "sample_tokens", "", "straight"),
            ("sample_tokens", "aborts", "", "straight"),
            ("aborts", "update", "", "straight"),
        ]
        return flow(title, description, rows, links, gap=34)
    boxes = {
        (0, 0): ("schedule", "decides; in vLLM", "the counters move"),
        (1, 0): ("execute_model", "computes the rows"),
        (0, 1): ("~masks", "of structured output,", "while it computes"),
        (1, 1): ("sample_tokens", "logits to tokens"),
        (0, 2): ("_process_aborts_queue", "removes what was", "aborted meanwhile"),
        (0, 3): ("update_from_output", "appends tokens; here", "the counters move"),
    }
    return lanes(title, description, boxes, "the next step")


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
    traces = {name: read_figure(f"p3-four-{name}") for name, _ in runs}
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


PICTURES = {
    "phase-03-continuous-batching-scheduler/two-counters": two_counters,
    "phase-03-continuous-batching-scheduler/queues": queues,
    "phase-03-continuous-batching-scheduler/groups": queues_of_groups,
    "phase-03-continuous-batching-scheduler/step": step_of_vllm,
    "phase-03-continuous-batching-scheduler/four": four_schedulers,
}
