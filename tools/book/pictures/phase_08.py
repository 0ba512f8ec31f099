"""The pictures of phase 8."""

from tools.book.drawing import BLUE, LIGHT, MUTED, NARROW, ORANGE, PALE, WHITE, Drawing

CHANNELS = 4


def two_ranks(narrow: bool = False) -> Drawing:
    """An MLP on two ranks: up is cut by rows, down by columns, and the terms are added up."""
    d = Drawing(
        NARROW if narrow else 760,
        330,
        "An MLP on two ranks",
        "Both ranks have the whole input. Rank 0 has the first two rows of up and the first two columns of down, and "
        "rank 1 has the rest. Each rank computes two of four channels from end to end, and puts out a term of every "
        "output. One all-reduce adds the two terms up.",
    )
    side = 14 if narrow else 22
    steps = [14, 84, 180, 256] if narrow else [40, 200, 400, 560]
    for rank, top in ((0, 44), (1, 174)):
        fill = LIGHT if rank == 0 else BLUE
        middle = top + 2.5 * side
        d.text(steps[0], top - 14, f"rank {rank}", bold=True)
        matrix(d, steps[0], top, 1, CHANNELS, side, PALE)
        d.arrow((steps[0] + side + 4, middle), (steps[1] - 4, middle))
        for row in range(CHANNELS):
            own = fill if row // 2 == rank else WHITE
            matrix(d, steps[1], top + row * side, CHANNELS, 1, side, own)
        d.arrow((steps[1] + CHANNELS * side + 4, middle), (steps[2] - 4, middle))
        for column in range(CHANNELS):
            own = fill if column // 2 == rank else WHITE
            matrix(d, steps[2] + column * side, top, 1, CHANNELS, side, own)
        d.arrow((steps[2] + CHANNELS * side + 4, middle), (steps[3] - 4, middle))
        matrix(d, steps[3], top, 1, CHANNELS, side, ORANGE)
    names = ("x", "up", "down", "a term")
    for x, name in zip(steps, names, strict=True):
        d.text(x, 182 + CHANNELS * side + 10, name, size=13, fill=MUTED)
    right = steps[3] + side + (8 if narrow else 16)
    d.line([(right, 44 + 2 * side), (right + 14, 44 + 2 * side), (right + 14, 174 + 2 * side), (right, 174 + 2 * side)])
    d.text(right + 20, 130, "the sum" if narrow else "all-reduce: the sum", size=13)
    words = "White is what the rank does not have. Between up and down nothing is sent."
    d.end(d.paragraph(14, 312, words))
    return d


def matrix(d: Drawing, x: float, y: float, columns: int, rows: int, side: int, fill: str) -> None:
    for column in range(columns):
        for row in range(rows):
            d.rect(x + column * side, y + row * side, side, side, fill)


PICTURES = {"phase-08-parallelism/two-ranks": two_ranks}
