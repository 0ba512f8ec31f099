"""A small drawing kit for the pictures of the book: SVG with words that a reader hears, and boxes, arrows and plots.

Colours are those of the timeline (mini_vllm/observe/timeline.js) on light paper, and tints of them. The site turns them
round in dark mode (docs/assets/book.css). For a phone a picture is drawn again, NARROW units wide.
"""

import math
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

NARROW = 360
INK, MUTED, LINE, PALE, PAPER, WHITE = "#132433", "#4c5866", "#97a3b0", "#e1e7ec", "#f6f8f9", "#ffffff"
BLUE, LIGHT, PURPLE, ORANGE, GREEN, RED = "#0b6a85", "#a3d9e8", "#dcaed7", "#ffb866", "#a3d8b0", "#b3261e"
AMBER = "#9a4f00"  # of lines
DARK = {BLUE, RED}  # the words on these are white
Point = tuple[float, float]
Link = tuple[str, str, str, str]  # from, to, the words beside the arrow, and how it runs: straight, left, right


class Drawing:
    """A picture of width x height user units; (0, 0) is the top left corner."""

    def __init__(self, width: int, height: int, title: str, description: str) -> None:
        self.width, self.height, self.title, self.description = width, height, title, description
        self._parts: list[str] = []

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str = WHITE, stroke: str = INK, border: float = 1
    ) -> None:
        more = {} if border == 1 else {"stroke_width": border}
        self._add("rect", x=x, y=y, width=width, height=height, fill=fill, stroke=stroke, **more)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 14,
        anchor: str = "start",
        bold: bool = False,
        fill: str = INK,
    ) -> None:
        """Words whose baseline is y; anchor: start, middle or end."""
        more = {"font_weight": 600} if bold else {}
        values = attributes(x=x, y=y, font_size=size, text_anchor=anchor, fill=fill, **more)
        self._parts.append(f"<text {values}>{escape(words)}</text>")

    def paragraph(self, x: float, y: float, words: str, most: int = 0, *, size: int = 13, bold: bool = False) -> float:
        """Words in lines of at most so many characters, or as many as the width has; where the next line would be."""
        most = most or int((self.width - x - 8) / (0.53 * size))
        for line in textwrap.wrap(words, most):
            self.text(x, y, line, size=size, bold=bold)
            y += 1.4 * size
        return y

    def end(self, y: float) -> None:
        """The picture ends below a last line of words: y is where the next one would be, as paragraph() says it."""
        self.height = round(y)

    def box(
        self, x: float, y: float, width: float, height: float, *lines: str, fill: str = WHITE, size: int = 14
    ) -> None:
        """A rectangle with lines of words in its middle; the first is bold when there are several."""
        self.rect(x, y, width, height, fill)
        top = y + height / 2 - (len(lines) - 1) * 0.65 * size + 0.35 * size
        for i, line in enumerate(lines):
            ink = WHITE if fill in DARK else INK
            bold = i == 0 and len(lines) > 1
            self.text(x + width / 2, top + 1.3 * size * i, line, size=size, anchor="middle", bold=bold, fill=ink)

    def line(self, points: Sequence[Point], stroke: str = INK, width: float = 1.5, dash: str = "") -> None:
        more = {"stroke_dasharray": dash} if dash else {}
        places = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self._add("polyline", points=places, fill="none", stroke=stroke, stroke_width=width, **more)

    def arrow(self, *points: Point, label: str = "", at: Point | None = None, stroke: str = INK) -> None:
        """A line through the points with a head at the last one; the label stands at `at`, or above its middle."""
        (x1, y1), (x2, y2) = points[-2:]
        length = math.hypot(x2 - x1, y2 - y1)
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        base = (x2 - 9 * ux, y2 - 9 * uy)
        self.line([*points[:-1], base], stroke)
        corners = [(x2, y2), (base[0] - 4.5 * uy, base[1] + 4.5 * ux), (base[0] + 4.5 * uy, base[1] - 4.5 * ux)]
        places = " ".join(f"{number(x)},{number(y)}" for x, y in corners)
        self._add("polygon", points=places, fill=stroke)
        if label:
            x, y = at or ((points[0][0] + x2) / 2, (points[0][1] + y2) / 2 - 7)
            self.text(x, y, label, size=13, anchor="middle" if at is None else "start", fill=MUTED)

    def circle(self, x: float, y: float, radius: float, fill: str) -> None:
        self._add("circle", cx=x, cy=y, r=radius, fill=fill)

    def svg(self) -> str:
        head = attributes(
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {self.width} {self.height}",
            width=self.width,
            height=self.height,
            role="img",
            aria_labelledby="t d",
            font_family="Inter, system-ui, sans-serif",
        )
        names = f'<title id="t">{escape(self.title)}</title>\n<desc id="d">{escape(self.description)}</desc>'
        return "\n".join([f"<svg {head}>", names, self._paper(), *self._parts, "</svg>", ""])

    def inline(self, name: str, alt: str) -> str:
        """The same for a page of the site, whose font it takes; name: its class."""
        size = attributes(viewBox=f"0 0 {self.width} {self.height}", width=self.width, height=self.height)
        drawn = "".join([self._paper(), *self._parts])
        return f'<svg class="{name}" {size} role="img" aria-label="{escape(alt)}" data-search-exclude>{drawn}</svg>'

    def _paper(self) -> str:
        return f"<rect {attributes(width=self.width, height=self.height, rx=8, fill=PAPER)}/>"

    def _add(self, tag: str, **values: object) -> None:
        self._parts.append(f"<{tag} {attributes(**values)}/>")


class Axis:
    """Places of values along a line from `start` to `end`, linear or logarithmic."""

    def __init__(self, values: Iterable[float], start: float, end: float, *, log: bool = False) -> None:
        self.scale = math.log2 if log else float
        found = [self.scale(value) for value in values]
        self.least, self.most, self.start, self.end = min(found), max(found), start, end

    def __call__(self, value: float) -> float:
        return self.start + (self.scale(value) - self.least) / (self.most - self.least) * (self.end - self.start)


def axes(d: Drawing, x: Axis, y: Axis, ticks_of_x: list[float], ticks_of_y: list[float], name: str, unit: str) -> None:
    """The frame of a plot, its ticks and the names of its axes."""
    for tick in ticks_of_y:
        d.line([(x.start, y(tick)), (x.end, y(tick))], PALE, 1)
        d.text(x.start - 8, y(tick) + 4, f"{tick:,g}", size=12, anchor="end", fill=MUTED)
    d.line([(x.start, y.start), (x.end, y.start)], LINE, 1)
    for tick in ticks_of_x:
        d.text(x(tick), y.start + 18, f"{tick:,g}", size=12, anchor="middle", fill=MUTED)
    d.text((x.start + x.end) / 2, y.start + 38, name, size=13, anchor="middle")
    d.text(x.start - 34, y.end - 14, unit, size=13)


def curve(d: Drawing, points: list[Point], colour: str, dash: str = "") -> None:
    d.line(points, colour, 2.5, dash)
    for x, y in points:
        d.circle(x, y, 3.5, colour)


def flow(title: str, description: str, rows: list[list[tuple[str, ...]]], links: list[Link], gap: int = 46) -> Drawing:
    """Boxes below one another, for a phone. A row has one box or two; the first line of a box is its name.

    An arrow that runs "straight" leads to the next row or the one before; one on a side may pass over rows.
    """
    places: dict[str, tuple[float, float, float, float]] = {}
    y = 16.0
    for row in rows:
        width = 150 if len(row) == 1 else 162
        height = 18 + 18 * max(len(box) for box in row)
        for i, box in enumerate(row):
            x = (NARROW - width) / 2 if len(row) == 1 else 12 + i * (NARROW - 24 - width)
            places[box[0].strip("*!")] = (x, y, width, height)
        y += height + gap
    d = Drawing(NARROW, int(y - gap + 16), title, description)
    for row in rows:
        for box in row:
            x, top, width, height = places[box[0].strip("*!")]
            fill = LIGHT if box[0].startswith("*") else ORANGE if box[0].startswith("!") else WHITE
            d.box(x, top, width, height, box[0].strip("*!"), *box[1:], fill=fill, size=12)
    for start, end, words, side in links:
        (x1, y1, w1, h1), (x2, y2, w2, h2) = places[start], places[end]
        if side == "straight":
            (a, b) = (x1 + w1 / 2, x2 + w2 / 2)
            (top, bottom) = (y1 + h1, y2) if y1 < y2 else (y1, y2 + h2)
            middle = (top + bottom) / 2
            if a != b:  # two boxes share one: each has an end of its own there
                (a, b) = (a + 14 * (1 if b > a else -1), b) if w1 < w2 else (a, b + 14 * (1 if a > b else -1))
            d.arrow((a, top), *([] if a == b else [(a, middle), (b, middle)]), (b, bottom))
            label(d, a + 10, middle + 4, words, "start")
            continue
        out = -1 if side == "left" else 1
        edge = x1 if out < 0 else x1 + w1
        target = x2 if out < 0 else x2 + w2
        column = edge + out * (18 + 14 * (abs(y2 - y1) > 150))
        (a, b) = (y1 + h1 * (0.65 if y2 > y1 else 0.35), y2 + h2 * (0.35 if y2 > y1 else 0.65))
        if start == end:
            (a, b) = (y1 + 0.1 * h1, y1 + 0.4 * h1)
        d.arrow((edge, a), (column, a), (column, b), (target, b))
        label(d, column + out * 5, (a + b) / 2 + 4, words, "end" if out < 0 else "start")
    return d


def lanes(title: str, description: str, boxes: dict[tuple[int, int], tuple[str, ...]], back: str) -> Drawing:
    """A step that runs between two lanes: the scheduler above, the worker below, four columns.

    boxes: (lane, column) to a name and lines, in the order in which they run. An arrow leads from each to the next one,
    and from the last one back to the first, with the words `back`. A box that begins with ~ runs beside the step: its
    arrow leads down.
    """
    lefts, tops, width, height = (92, 260, 428, 596), (62, 182), 152, 78
    d = Drawing(760, 284, title, description)
    for top, words in zip(tops, ("scheduler", "worker"), strict=True):
        d.text(16, top + height / 2 + 4, words, size=13, bold=True)
    places = {place: (lefts[place[1]], tops[place[0]]) for place in boxes}
    for place, (name, *lines) in boxes.items():
        fill = ORANGE if name.startswith("!") else PALE if name.startswith("~") else WHITE if place[0] else LIGHT
        d.box(*places[place], width, height, name.lstrip("!~"), *lines, fill=fill, size=11)
    inline = [place for place, (name, *_) in boxes.items() if not name.startswith("~")]
    for place in boxes.keys() - set(inline):
        x, y = places[place]
        d.arrow((x + width / 2, y + height), (x + width / 2, tops[1] - 2))
    for (lane, column), after in pairwise(inline):
        (x1, y1), (x2, y2) = places[lane, column], places[after]
        if lane == after[0]:
            d.arrow((x1 + width, y1 + height / 2), (x2 - 2, y2 + height / 2))
        elif column == after[1]:
            down = y1 < y2
            d.arrow(
                (x1 + width / 2, y1 + height if down else y1), (x2 + width / 2, y2 - 2 if down else y2 + height + 2)
            )
        else:
            d.arrow((x1 + width, y1 + height / 2), (x2 + width / 2, y1 + height / 2), (x2 + width / 2, y2 + height + 2))
    (x1, y1), (x2, y2) = places[inline[-1]], places[inline[0]]
    d.arrow((x1 + width / 2, y1), (x1 + width / 2, 34), (x2 + width / 2, 34), (x2 + width / 2, y2 - 2))
    d.text((x1 + x2 + width) / 2, 26, back, size=13, anchor="middle", fill=MUTED)
    return d


def label(d: Drawing, x: float, y: float, words: str, anchor: str) -> None:
    lines = words.split("\n")
    for i, line in enumerate(lines):
        d.text(x, y + 14 * (i - (len(lines) - 1) / 2), line, size=12, anchor=anchor, fill=MUTED)


def attributes(**values: object) -> str:
    """SVG's attributes: font_size=13 is font-size="13"."""
    keeps = {"viewBox"}
    return " ".join(
        f'{name if name in keeps else name.replace("_", "-")}="{number(value) if isinstance(value, float) else value}"'
        for name, value in values.items()
    )


def number(value: float) -> str:
    """At most one decimal, so that a picture is the same on every machine."""
    return f"{value:.1f}".removesuffix(".0")
