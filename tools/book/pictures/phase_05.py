"""The pictures of phase 5."""

from tools.book.drawing import (
    AMBER,
    BLUE,
    GREEN,
    INK,
    LINE,
    MUTED,
    NARROW,
    ORANGE,
    RED,
    WHITE,
    Axis,
    Drawing,
    axes,
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
    "phase-05-speculative-decoding/verification": verification,
    "phase-05-speculative-decoding/gains": gains_of_drafts,
}
