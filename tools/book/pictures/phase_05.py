"""The pictures of phase 5."""

from itertools import pairwise

from tools.book.drawing import (
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
    RED,
    WHITE,
    Axis,
    Drawing,
    axes,
    flow,
    lanes,
)
from tools.book.pictures.data import read_table, value


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


def step_with_drafts(narrow: bool = False) -> Drawing:
    """The order of a step in the deep dive; what is new is orange."""
    title = "A step of vLLM's engine with drafts"
    description = (
        "schedule names the drafts that the step verifies. execute_model computes d + 1 rows for d drafts. "
        "sample_tokens verifies them. New: propose_draft_token_ids makes the next drafts. update_from_output takes in "
        "what was accepted. New: update_draft_token_ids keeps the drafts for the next step."
    )
    boxes = {
        (0, 0): ("schedule", "names the drafts", "of each request"),
        (1, 0): ("execute_model", "d drafts make", "d + 1 rows"),
        (1, 1): ("sample_tokens", "verifies the drafts"),
        (1, 2): ("!propose_draft_token_ids", "makes the next drafts"),
        (0, 2): ("update_from_output", "takes in what", "was accepted"),
        (0, 3): ("!update_draft_token_ids", "keeps the new drafts"),
    }
    if not narrow:
        return lanes(title, description, boxes, "the next step, with these drafts")
    short = {"!propose_draft_token_ids": "!propose drafts", "!update_draft_token_ids": "!update drafts"}
    rows = [
        [(short.get(name, name) if lane or name.startswith("!") else f"*{name}", *lines)]
        for (lane, _), (name, *lines) in boxes.items()
    ]
    names = [row[0].lstrip("*!") for (row,) in rows]
    links = [(*pair, "", "straight") for pair in pairwise(names)]
    return flow(title, description, rows, [*links, (names[-1], names[0], "", "left")], gap=24)


def overlap_of_distributions(narrow: bool = False) -> Drawing:
    """Of each token a bar q, which drafts, and a bar p, which is wanted: what both have is accepted."""
    p, q = (0.2, 0.5, 0.3), (0.8, 0.1, 0.1)
    least = [min(pair) for pair in zip(p, q, strict=True)]
    d = Drawing(
        NARROW if narrow else 760,
        386 if narrow else 330,
        "What two distributions have in common",
        "For each token a bar of q and one of p. "
        + " ".join(
            f"Token {i}: q {q[i]:g}, p {p[i]:g}, accepted {least[i]:g}, rejected {q[i] - least[i]:.1g}, replaced by it "
            f"{p[i] - least[i]:.1g}."
            for i in range(3)
        )
        + f" Accepted are {sum(least):.1g} of all drafts.",
    )
    left, pitch, width = (44, 104, 40) if narrow else (70, 150, 56)
    y = Axis([0, 0.8], 256, 40)
    for tick in (0, 0.2, 0.4, 0.6, 0.8):
        d.line([(left - 8, y(tick)), (left + 3 * pitch, y(tick))], LINE if tick == 0 else PALE, 1)
        d.text(left - 14, y(tick) + 4, f"{tick:g}", size=12, anchor="end", fill=MUTED)
    for i in range(3):
        x = left + pitch * i + 4
        for name, whole, rest in (("q", q[i], RED), ("p", p[i], LIGHT)):
            d.rect(x, y(least[i]), width, y(0) - y(least[i]), GREEN, "none")
            d.rect(x, y(whole), width, y(least[i]) - y(whole), rest, "none")
            d.text(x + width / 2, y(0) + 17, name, size=13, anchor="middle")
            d.text(x + width / 2, y(whole) - 6, f"{whole:g}", size=12, anchor="middle")
            x += width + 6
        d.text(left + pitch * i + 7 + width, y(0) + 36, f"token {i}", size=13, anchor="middle", bold=True)
    told = (
        (GREEN, "min(p, q): drafted", f"and accepted, {sum(least):.1g} of all"),
        (RED, "q above p: drafted", f"and rejected, {1 - sum(least):.1g}"),
        (LIGHT, "p above q: the", "replacement's share"),
    )
    for i, (fill, *lines) in enumerate(told):
        x, top = (16, 316 + 24 * i) if narrow else (left + 3 * pitch + 30, 70 + 58 * i)
        d.rect(x, top, 14, 14, fill, "none")
        for j, words in enumerate([" ".join(lines)] if narrow else lines):
            d.text(x + 22, top + 12 + 18 * j, words, size=13)
    return d


def gains_of_drafts(narrow: bool = False) -> Drawing:
    """Of Qwen3-0.6B's shape: measured, and as the chapter computes it from what a step with drafts costs."""
    rows, k = read_table("speculation", "requests, qwen"), 4
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


PICTURES = {
    "phase-05-speculative-decoding/step": step_with_drafts,
    "phase-05-speculative-decoding/overlap": overlap_of_distributions,
    "phase-05-speculative-decoding/verification": verification,
    "phase-05-speculative-decoding/gains": gains_of_drafts,
}
