"""Traces as one HTML file: all is inside, so it opens from a folder and asks no host for anything.

The figure is timeline.js, with which the book draws, too. Behind it, and alone where there is no
JavaScript, stands what timeline.py draws.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

from mini_vllm.observe.timeline import Trace, render_timeline

COMPONENT = Path(__file__).with_name("timeline.js")
PAGE = Path(__file__).with_name("page.html")  # a string.Template
FIGURE = """\
<div class="kv-timeline" data-src="#trace-{number}" {attributes}>
<pre tabindex="0">{text}</pre>
</div>
<script type="application/json" id="trace-{number}">{trace}</script>"""


class Figure(NamedTuple):
    """A trace, what stands above it, and further attributes of the element (timeline.js), such as
    step and sync.
    """

    trace: Trace
    caption: str
    attributes: Mapping[str, Any] = {}


def counted(number: int, noun: str) -> str:
    """So many of them, in the plural but for one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def caption_of(trace: Trace) -> str:
    """How large a trace and its scheduler are."""
    config, num_requests, num_steps = trace["config"], len(trace["requests"]), len(trace["steps"])
    return (
        f"{counted(num_requests, 'request')}, {counted(num_steps, 'step')}: a budget of "
        f"{config['max_num_batched_tokens']} tokens a step, {config['num_blocks'] - 1} KV blocks "
        "of "
        f"{config['block_size']} tokens"
    )


def render_page(title: str, paragraphs: Sequence[str], figures: Sequence[Figure]) -> str:
    """The file's text. Figures stand beside each other where there is room."""
    return Template(PAGE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        paragraphs="\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs),
        figures="\n".join(_render_figure(number, figure) for number, figure in enumerate(figures)),
        component=COMPONENT.read_text(encoding="utf-8"),
    )


def _render_figure(number: int, figure: Figure) -> str:
    attributes = {"caption": figure.caption, **figure.attributes}
    return FIGURE.format(
        number=number,
        attributes=" ".join(
            f'data-{name}="{escape(str(value))}"' for name, value in attributes.items()
        ),
        text=escape(render_timeline(figure.trace, max_bands=1000).plain),
        # no tag ends or begins in there
        trace=json.dumps(figure.trace, ensure_ascii=False).replace("<", "\\u003c"),
    )
