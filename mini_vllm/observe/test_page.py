"""Pages of traces: one file that asks nobody for anything."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from mini_vllm.cli.commands import app
from mini_vllm.observe.page import COMPONENT, Figure, caption_of, render_page
from mini_vllm.observe.timeline import MARKS
from mini_vllm.observe.trace import run_trace

NASTY = "</script><script>alert(1)</script><!-- <b> & ' \" \u2028"
SCENARIO: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 9, "max_num_seqs": 4, "max_num_batched_tokens": 8},
    "requests": [{"id": "a", "prompt": [1, 2, 3, 4, 5], "max_tokens": 3, "prompt_text": NASTY}],
}


class Elements(HTMLParser):
    """Every element of a page, as (tag, attributes, text up to the next tag)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}", {}, ""))

    def handle_data(self, data: str) -> None:
        if self.found:
            tag, attributes, text = self.found[-1]
            self.found[-1] = tag, attributes, text + data

    def of(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attributes, text) for name, attributes, text in self.found if name == tag]


def run(*arguments: str, status: int = 0) -> Any:
    result = CliRunner(env={"COLUMNS": "100", "FORCE_COLOR": None}).invoke(
        app, ["trace", *arguments]
    )
    assert result.exit_code == status, result.output
    return result


def test_a_trace_comes_out_as_it_went_in_whatever_its_texts_say() -> None:
    trace = run_trace(SCENARIO)
    page = render_page(NASTY, [NASTY], [Figure(trace, NASTY, {"step": 1}), Figure(trace, "second")])
    elements = Elements(page)
    assert [text for _, text in elements.of("title")] == [NASTY]
    assert [text for _, text in elements.of("p")] == [NASTY]
    scripts = elements.of("script")
    assert [attributes.get("id") for attributes, _ in scripts] == ["trace-0", "trace-1", None]
    assert [json.loads(text) for _, text in scripts[:2]] == [json.loads(json.dumps(trace))] * 2
    first, second = (
        attributes
        for attributes, _ in elements.of("div")
        if attributes.get("class") == "kv-timeline"
    )
    assert (first["data-src"], first["data-caption"], first["data-step"]) == (
        "#trace-0",
        NASTY,
        "1",
    )
    assert (second["data-src"], second["data-caption"]) == ("#trace-1", "second")
    texts = [text for _, text in elements.of("pre")]
    assert [text.splitlines()[1] for text in texts] == ["a         █▪▪"] * 2


def test_a_page_asks_nobody_for_anything() -> None:
    page = render_page("t", [], [Figure(run_trace(SCENARIO), "c")])
    for _, attributes, _ in Elements(page).found:
        addresses = [
            attributes[name]
            for name in ("src", "href", "srcset", "action", "poster")
            if name in attributes
        ]
        assert addresses in ([], ["data:,"])
    assert "default-src 'none'" in page
    component = COMPONENT.read_text(encoding="utf-8")
    assert not re.search(
        r"^\s*(import|export .* from)\b|@import|url\(|</script|<!--", component, re.MULTILINE
    )


def test_the_figure_has_the_words_of_the_text() -> None:
    component = COMPONENT.read_text(encoding="utf-8")
    stated = re.search(r"export const MARKS = \{(.*?)\};", component, re.DOTALL)
    assert stated
    found = dict(re.findall(r'(\w+): "([^"]*)",', stated[1]))
    assert found == {name: mark.meaning for name, mark in MARKS.items()}


def test_the_caption_says_how_large_it_is() -> None:
    sizes = "1 request, 3 steps: a budget of 8 tokens a step, 8 KV blocks of 4 tokens"
    assert caption_of(run_trace(SCENARIO)) == sizes


# --- the command ----------------------------------------------------------------------------------


def test_trace_of_a_scenario_writes_a_page(tmp_path: Path) -> None:
    scenario, page = tmp_path / "scenario.json", tmp_path / "page.html"
    scenario.write_text(json.dumps({"name": "small", **SCENARIO}), encoding="utf-8")
    assert f"wrote {page}" in run("--scenario", str(scenario), "--html", str(page)).stderr.replace(
        "\n", ""
    )
    elements = Elements(page.read_text(encoding="utf-8"))
    assert elements.of("title")[0][1] == "mini-vllm trace: small"
    assert json.loads(elements.of("script")[0][1])["name"] == "small"


def test_trace_of_prompts_writes_a_page_with_the_texts(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    page = tmp_path / "page.html"
    run("What is a KV block?", "--max-tokens", "8", "--num-kv-blocks", "50", "--html", str(page))
    elements = Elements(page.read_text(encoding="utf-8"))
    assert "What is a KV block?" in elements.of("p")[0][1]
    assert (
        json.loads(elements.of("script")[0][1])["requests"][0]["prompt_text"]
        == "What is a KV block?"
    )


@pytest.mark.parametrize("option", ["--out", "--html"])
def test_a_file_that_cannot_be_written_is_one_line_and_status_2(
    tmp_path: Path, option: str
) -> None:
    scenario, file = tmp_path / "scenario.json", tmp_path / "no" / "such" / "file"
    scenario.write_text(json.dumps(SCENARIO), encoding="utf-8")
    lines = run("--scenario", str(scenario), option, str(file), status=2).stderr.splitlines()
    assert [line for line in lines if line.startswith("Error: ")] == [
        f"Error: cannot write {file}: No such file or directory"
    ]
