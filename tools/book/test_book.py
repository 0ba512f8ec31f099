"""The book is true: what it repeats is what the files say, its cells run, its links arrive, its commands work.

What needs the built site is in test_site.py. The slow tests here type the commands of the pages into a scratch copy;
those that take seconds wait for the night.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from labkit.compare.replay import find_trace_files, read_traces
from labkit.grade.breaking import SECONDS, unpack
from labkit.grade.confined import MEMORY
from labkit.grade.deadline import WALL_TIMES
from labkit.grade.runner import FAILED, HANG, NOT_GRADED, NOT_RUN, PASSED, TODO
from labkit.grade.watchdog import AFTER_A_HANG, FIRST_SECONDS
from labkit.labs.catalog import VLLM, Lab, find_lab, labs, phases
from labkit.labs.source import render_solution, render_stub
from labkit.prove.laws import short_hash, without_values
from labkit.prove.lock import read_lock
from labkit.prove.report import read_messages
from labkit.web import book as web
from tools.book import check, excerpts, figures
from tools.book.check import DOCS, ROOT, name_of

PAGES = check.pages()
GUIDES = [page for page in PAGES if page.name == "guide.md"]
FENCE = re.compile(r"^(?P<ticks>```+)(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=ticks)$", re.DOTALL | re.MULTILINE)
CELL = re.compile(r'python cell="(?P<name>[\w-]+)"')
LINK = re.compile(r'\]\((?P<link>[^)\s]+)\)|(?:href|src|data-src)="(?P<attribute>[^"]+)"')
WITHOUT_TORCH = """
import sys
sys.modules.update(dict.fromkeys(("torch", "transformers", "tokenizers")))
sys.path.insert(0, "")
"""
CELL_SECONDS = 5  # of the processor; a page promises 2
COMMAND_SECONDS = 600  # a backstop


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def each_page(argument: str = "page") -> pytest.MarkDecorator:
    return pytest.mark.parametrize(argument, PAGES, ids=name_of)


# --- what comes from elsewhere ------------------------------------------------------------------------------------


@each_page()
def test_code_is_cut_from_the_source(page: Path) -> None:
    assert excerpts.typed_code(read(page)) == [], "code is an excerpt (tools/book/excerpts.py) or a cell"
    assert excerpts.mend(read(page)) == read(page), "python tools/book/excerpts.py writes what the source says"


def test_what_the_api_pages_show_is_there() -> None:
    """mkdocs would find it, too, but only when the book is built."""
    pytest.importorskip("torch", reason="the engine is imported")
    pytest.importorskip("msgspec", reason="the server is imported")
    for page in sorted((ROOT / "docs" / "api").glob("*.md")):
        for name in re.findall(r"^:::+ *([\w.]+)", read(page), re.MULTILINE):
            assert is_there(name), f"{page.name}: {name}"


def is_there(name: str) -> bool:
    """Read from the source: a module may need a library that is not here."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        base = ROOT.joinpath(*parts[:n])
        for file in (base.with_suffix(".py"), base / "__init__.py"):
            if file.is_file():
                nodes: list[ast.stmt] = ast.parse(read(file)).body
                for part in parts[n:]:
                    found = [node for node in nodes if part in names_bound_by(node)]
                    if not found:
                        return False
                    nodes = getattr(found[0], "body", [])
                return True
    return False


def names_bound_by(node: ast.stmt) -> set[str]:
    """By an import, a definition, or an assignment."""
    if isinstance(node, ast.ImportFrom | ast.Import):
        return {alias.asname or alias.name for alias in node.names}
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {each.id for each in targets if isinstance(each, ast.Name)}


def test_figures_are_runs_of_the_scheduler() -> None:
    names = {file.stem for file in figures.TRACES.glob("*.json")}
    assert len(names) > 20
    for name in names:
        assert json.loads(read(figures.TRACES / f"{name}.json")) == figures.trace_of(name), name


def test_a_recorded_run_is_what_the_engine_loop_does() -> None:
    """The tables of the chapter, too."""
    pytest.importorskip("torch", reason="the recording runs the bundled model")
    pytest.importorskip("msgspec", reason="the recording encodes the messages of the server")
    from tools.book import record_serving

    trace, tables = record_serving.record()
    assert trace == json.loads(read(record_serving.TRACE)), "python tools/book/record_serving.py"
    assert tables == read(record_serving.TABLES), "python tools/book/record_serving.py"


@each_page()
def test_a_figures_text_is_what_it_draws(page: Path) -> None:
    text = read(page)
    sources = [Path(source).stem for source in re.findall(r'class="kv-timeline" data-src="([^"]+)"', text)]
    assert [match["name"] for match in figures.FIGURE.finditer(text)] == sources
    assert figures.FIGURE.sub(lambda match: figures.text_of(match["name"]), text) == text, (
        "python tools/book/figures.py"
    )


def test_summary_and_included_parts_are_up_to_date() -> None:
    assert [name_of(file) for file in check.stale()] == [], "python tools/book/check.py writes them"


@pytest.mark.parametrize(
    ("marker", "word"),
    [
        ("include: README.md | phase | you write | needs |", "PyTorch"),
        ("labs: 03.1 02", "| together |"),
        ("message: 03.2 newcomers_first", "expected"),
    ],
)
def test_a_marked_part_is_written_again(marker: str, word: str) -> None:
    end = f"<!-- /{marker.partition(':')[0]} -->"
    mended = check.mend(DOCS / "tests.md", f"before\n\n<!-- {marker} -->\nstale\n{end}\n\nafter\n")
    assert word in mended
    assert "stale" not in mended
    assert mended.startswith(f"before\n\n<!-- {marker} -->\n\n")
    assert mended.endswith(f"\n\n{end}\n\nafter\n")


@pytest.mark.parametrize(
    "marker",
    ["include: README.md nobody wrote this", "include: README.md mini_vllm", "labs: 99.9", "message: 03.2 no_bug"],
)
def test_a_marker_that_names_nothing_or_too_much_is_refused(marker: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        check.mend(DOCS / "tests.md", f"<!-- {marker} -->\n<!-- /{marker.partition(':')[0]} -->\n")


def test_every_page_is_in_the_nav() -> None:
    assert list(check.wrong_in_nav()) == []


def test_figures_that_were_measured_stand_in_a_report() -> None:
    """In the one that the section links, as it is or with fewer digits. What is shown of a report is not prose."""
    number = r"(?<!\w)\d[\d,]*(?:\.\d+)*"
    for section in re.split(r"^## ", read(DOCS / "measured.md"), flags=re.MULTILINE):
        linked = {ROOT / "docs" / link for link in re.findall(r"\]\((\.\./[^)#]*\.md)", section)}
        known = set(re.findall(number, " ".join(map(read, linked | {ROOT / "benchmarks/gpu.sh"}))))
        values = {float(each.replace(",", "")) for each in known if each.count(".") < 2}
        shown = r"<!-- include.*?<!-- /include -->|\]\([^)]*\)|`[^`]*`"
        prose = re.sub(shown, "", section.partition("\n")[2], flags=re.DOTALL)
        for said in set(re.findall(number, prose)) - known - {lab.id for lab in labs()} - {VLLM}:
            decimals = len(said.partition(".")[2])
            assert float(said.replace(",", "")) in {round(value, decimals) for value in values}, (said, section[:40])


def tables(text: str) -> Iterator[list[list[str]]]:
    """The tables of a page, head first, as cells."""
    for table in re.findall(r"(?:^\|.*\n)+", FENCE.sub("", text + "\n"), re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", line.strip()[1:-1]) for line in table.splitlines()]
        yield [[cell.strip() for cell in row] for row in rows if not set("".join(row)) <= set(" :-")]


FORMULA = r"\$\$.*?\$\$|\$[^$\n]*(?:\n[^$\n]+)?\$"
NO_LETTERS = rf"^```.*?^```|<!-- include.*?<!-- /include -->|{FORMULA}|`[^`\n]*`|<summary>.*?</summary>"


def test_formulas_are_tex() -> None:
    """Not products, fractions and powers in letters. A summary is HTML, and the bundled model recites the glossary."""
    calls, products = r"\b(?:min|max|int)\([^)]|\b[pq]\(x\)", r"\d x [\d(]|\b(?:[a-zA-Z]|\d+) [/+] [a-zA-Z]\b"
    for page in PAGES:
        text = "" if page == check.GLOSSARY else re.sub(NO_LETTERS, "", read(page), flags=re.MULTILINE | re.DOTALL)
        in_letters = re.search(rf"{calls}|{products}|\w[²³⁰¹⁴-⁹ᵏⁿ]|\*[a-zA-Z]\* =", text)
        assert not in_letters, (name_of(page), in_letters)


UNIT = r"\b[µm]?s\b|%|[/(]|MB|tokens|requests|steps|running|perplexity|times|slots"


@pytest.mark.parametrize("name", ["measured.md", "phase-01-paged-kv/step-cost.md"])
def test_columns_of_figures_have_units_and_names_of_their_own(name: str) -> None:
    """A unit stands with the name of a column, or of all columns with the name of the first one."""
    for head, *rows in tables(read(DOCS / name)):
        assert len(set(head)) == len(head), head
        for column, *cells in list(zip(head, *rows, strict=True))[1:]:
            if any(re.fullmatch(r"[\d.,]+( (to|±) [\d.,]+)?", cell) for cell in cells):
                assert re.search(
                    UNIT, f"{head[0]} {column}" if re.search(r"\b[µm]?s\b|/s|a second", head[0]) else column
                ), head


def test_recorded_traces_are_counted_right() -> None:
    num_traces = sum(len(read_traces(file)) for file in find_trace_files(ROOT / "traces" / "vllm-0.33.0"))
    for page in PAGES:
        assert set(re.findall(r"(\d+) recorded traces", read(page))) <= {str(num_traces)}, name_of(page)


# --- vLLM ---------------------------------------------------------------------------------------------------------


def test_citations_of_vllm_are_right() -> None:
    assert list(check.wrong_citations()) == []


def test_docstrings_name_sources_of_vllm_that_exist() -> None:
    assert list(check.wrong_sources()) == []
    assert len({match["path"] for _, match in check.cited_files()}) > 40


@pytest.mark.parametrize(
    ("text", "symbol", "path"),
    [
        ("Source: Request.is_finished in vllm/v1/request.py.", "Request.is_finished", "vllm/v1/request"),
        ("It blends (check_stop (vllm/v1/core/sched/utils.py)).", "check_stop", "vllm/v1/core/sched/utils"),
        ("Source: vllm/v1/spec_decode; Leviathan.", None, "vllm/v1/spec_decode"),
    ],
)
def test_a_source_is_a_symbol_and_a_file(text: str, symbol: str | None, path: str) -> None:
    (found,) = check.SOURCE.finditer(text)
    assert (found["symbol"], found["path"]) == (symbol, path)
    assert not check.SOURCE.search("mini_vllm/request.py and nano-vllm/engine.py")


def test_pages_say_what_vllm_runs_by_default() -> None:
    assert list(check.stale_defaults()) == []


DEFAULTS = {"backends": ["FLASH", "INFER", "TRITON"], "limit": 128, "share": 0.9, "is_on": True}


@pytest.mark.parametrize(
    "holds",
    [
        "First `FLASH`, then `INFER`. <!-- vllm: backends -->",
        "`FLASH`, `INFER`, and `TRITON`; `FLASH` is the first. <!-- vllm: backends -->",
        "| size | 128, likewise <!-- vllm: limit --> |\n| share | 0.9 <!-- vllm: share --> |",
        "It is at\n128. <!-- vllm: limit -->\n\n- True <!-- vllm: is_on -->",
        "No key: `INFER`, then `FLASH`.",
    ],
)
def test_a_paragraph_that_says_what_is_so(holds: str) -> None:
    assert list(check.wrong_defaults(holds, DEFAULTS)) == []


@pytest.mark.parametrize(
    "broken",
    [
        "First `INFER`, then `FLASH`. <!-- vllm: backends -->",
        "First `FLASH`, then `TRITON`. <!-- vllm: backends -->",
        "`FLASH` alone. <!-- vllm: backends -->",
        "First `FLASH`.\n\nThen `INFER`. <!-- vllm: backends -->",
        "| size | 1280 <!-- vllm: limit --> |",
        "| size | 64 <!-- vllm: limit --> |\n| share | 128 |",
        "A share of 0.95. <!-- vllm: share -->",
        "It is 128. <!-- vllm: no_such_name -->",
    ],
)
def test_a_paragraph_that_no_longer_holds(broken: str) -> None:
    assert len(list(check.wrong_defaults(broken, DEFAULTS))) == 1


def test_each_default_that_changes_makes_a_page_red() -> None:
    """Whatever vLLM's next release changes: the paragraph that says it is found."""
    now = json.loads(check.DEFAULTS.read_text(encoding="utf-8"))
    texts = [page.read_text(encoding="utf-8") for page in PAGES]
    for name, value in now.items():
        changed = now | {name: value[::-1] if isinstance(value, list) else "something else"}
        assert [wrong for text in texts for wrong in check.wrong_defaults(text, changed)], name


@pytest.mark.parametrize(
    "link",
    [
        "[`Request`](https://github.com/vllm-project/vllm/blob/v0.32.0/vllm/v1/request.py#L58)",
        "[`Request`](https://github.com/vllm-project/vllm/blob/main/vllm/v1/request.py#L58)",
        "[`Request`](https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/request.py)",
        "[requests](https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/request.py#L58)",
        "https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/request.py#L58",
        "[`Request`](https://raw.githubusercontent.com/vllm-project/vllm/v0.33.0/vllm/v1/request.py)",
        "[the docs](https://docs.vllm.ai/en/latest/design/arch_overview.html)",
    ],
)
def test_a_citation_that_cannot_be_checked_is_refused(link: str) -> None:
    (found,) = check.citations(f"As in {link}.")
    assert isinstance(found, str)


def test_a_citation_is_read() -> None:
    link = "[`Request.is_finished`](https://github.com/vllm-project/vllm/blob/v0.33.0/vllm/v1/request.py#L7)"
    assert list(check.citations(link)) == [("vllm.v1.request", "Request.is_finished", 7)]
    assert list(check.citations("[vLLM](https://github.com/vllm-project/vllm)")) == []


# --- how it is written --------------------------------------------------------------------------------------------


def test_a_table_of_the_phases_has_all_of_them() -> None:
    """A phase that is new is missing from every table that was written before it."""
    chapters = {phase.labs[0].chapter.partition("#")[0].split("/")[1] for phase in phases()}
    for page in [*PAGES, ROOT / "README.md"]:
        rows = re.findall(r"^\|.*$", page.read_text(encoding="utf-8"), re.M)
        found = set(re.findall(r"(phase-\d\d-[\w-]+)/guide\.md", "\n".join(rows)))
        assert len(found) <= len(chapters) // 2 or found == chapters, f"{page.name} lacks {sorted(chapters - found)}"


def test_the_light_install_is_enough_for_the_phases_that_the_page_says() -> None:
    with_torch = {lab.id for lab in labs() if "torch" in lab.needs}
    first = phases()[0].id
    assert {each for each in with_torch if not each.startswith(first)} == {"05.3"}
    assert {lab.id for lab in phases()[0].labs} - with_torch == {"01.6", "01.9"}
    last = int(phases()[-1].id)
    text = (DOCS / "install.md").read_text(encoding="utf-8")
    said = re.findall(r"phases\s+0?2 to 0?(\d)", text)
    assert said == [str(last)] * 3, f"install.md says phases 2 to {said}, and {last} is the last"


def test_the_last_page_has_every_lab() -> None:
    links = set(re.findall(r"\]\(\.\./([^)]+)/contract\.md\)", read(DOCS / "closing.md")))
    assert {lab.folder.relative_to(ROOT).as_posix() for lab in labs()} <= links


@pytest.mark.slow
def test_the_text_keeps_the_rules_that_can_be_looked_for() -> None:
    assert list(check.wrong_in_style()) == []


@pytest.mark.parametrize("word", ["others", "Somebody", "for ever", "dear"])
def test_words_of_the_table_are_found_outside_of_code(word: str) -> None:
    words = check.banned_words()
    assert list(check.lines_with(words, f"A request.\nIt waits {word}, and `{word}`.")) == [f"It waits {word}, and  ."]
    assert list(check.lines_with(words, f"```\n{word}\n```\nan {word}ness, and `{word}`")) == []


def test_docstrings_and_comments_are_read_and_other_strings_are_not() -> None:
    source = '"""Of a module."""\n\n\ndef f():  # said\n    """Of a function."""\n    return "data"\n'
    read = [text for text in check.docstrings_and_comments(source) if text]
    assert read == ["Of a module.", "Of a function.", "# said"]


def test_a_sentence_names_who_acts() -> None:
    assert list(check.badly_written("It ends. Who runs holds blocks. Who asks?")) == ["Who runs holds blocks."]


@pytest.mark.parametrize(
    ("text", "runs_together"),
    [
        ("A step. 1. It decides. 2. It computes.", True),
        ("1.\nIt decides. 2.\n`It` computes.", True),
        ("A step: - it decides. - it computes.", True),
        ("A step has two parts:\n- it decides\n- it computes", True),
        ("The client leaves during step\n8. So step 9 computes nothing.", True),
        ("A step has two parts:\n\n1. It decides.\n2. It computes.\n\n- One\n- Two", False),
        ("1. It takes step 8. Step 9\n   waits.\n2. It takes 3. 4 are left.", False),
        ("```\n1. a 2. b\n```\nOf 7 - 2 - 1 blocks 4 are free.", False),
    ],
)
def test_a_list_that_runs_together_is_found(text: str, runs_together: bool) -> None:
    assert bool(list(check.lists_that_run_together(text))) is runs_together


# --- cells --------------------------------------------------------------------------------------------------------


def cells() -> list[Any]:
    found_cells = []
    for page in PAGES:
        for fence in FENCE.finditer(read(page)):
            if found := CELL.match(fence["info"]):
                found_cells.append(pytest.param(fence["body"], id=f"{name_of(page)}:{found['name']}"))
    return found_cells


@pytest.mark.slow
@pytest.mark.parametrize("source", cells())
def test_a_cell_runs_on_the_standard_library(source: str) -> None:
    has_model = "EngineConfig" in source  # in a page JavaScript computes what NumPy does here
    call = [sys.executable, "-E", *([] if has_model else ["-S"]), "-X", "utf8", "-"]
    before = os.times()
    source = (WITHOUT_TORCH if has_model else "") + source
    run = subprocess.run(call, input=source, cwd=ROOT, capture_output=True, text=True, timeout=20 * CELL_SECONDS)
    after = os.times()
    assert run.returncode == 0, run.stderr
    seconds = after.children_user + after.children_system - before.children_user - before.children_system
    assert seconds < CELL_SECONDS


@each_page()
def test_the_cells_of_a_page_have_names_of_their_own(page: Path) -> None:
    names = Counter(found["name"] for fence in FENCE.finditer(read(page)) if (found := CELL.match(fence["info"])))
    assert [name for name, number in names.items() if number > 1] == []


# --- links --------------------------------------------------------------------------------------------------------


def headings_of(text: str) -> list[str]:
    """The anchors of a text's headings, in order, as mkdocs makes them."""
    found: list[str] = []
    for heading in re.findall(r"^#{1,6} (.+?)\s*$", FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", heading)
        ascii_only = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode()
        slug = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())
        names = (slug, *(f"{slug}_{number}" for number in range(1, len(found) + 1)))
        found.append(next(name for name in names if name not in found))
    return found


@cache
def headings(page: Path) -> list[str]:
    return headings_of(read(page))


@cache
def anchors(page: Path) -> set[str]:
    """What a link to the page may name: headings, ids of HTML, and objects of the API reference."""
    text = FENCE.sub("", read(page))
    return {
        *headings(page),
        *re.findall(r'\bid="([^"]+)"', text),
        *re.findall(r"^::: (\S+)$", text, re.MULTILINE),
    }


@each_page()
def test_links_and_anchors_resolve(page: Path) -> None:
    broken = []
    for match in LINK.finditer(FENCE.sub("", read(page))):
        link = match["link"] or match["attribute"]
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        folder = page.is_relative_to(DOCS) and target.is_dir()  # a site has no page for one
        if folder or not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_lab_has_its_section_in_order() -> None:
    for chapter in {lab.chapter.partition("#")[0] for lab in labs()}:
        wanted = [lab.chapter.partition("#")[2] for lab in labs() if lab.chapter.partition("#")[0] == chapter]
        assert [anchor for anchor in headings(ROOT / chapter) if anchor in wanted] == wanted, chapter


@pytest.mark.parametrize("page", GUIDES, ids=name_of)
def test_a_guide_keeps_its_shape(page: Path) -> None:
    """Its figure or diagram comes first; it asks before it tells; it names each lab's command; it ends with checks."""
    text = read(page)
    before = text.partition("\n## ")[0]
    assert re.search(r"class=\"kv-timeline\"|\.svg\)", before), "an overview figure"
    assert text.count("*Predict before coding") >= 2
    assert text.count("<details") == text.count("</details>")
    for lab in labs():
        if ROOT / lab.chapter.partition("#")[0] == page:
            assert f"lab watch {lab.id}" in text


# --- labs ---------------------------------------------------------------------------------------------------------


def chapters() -> dict[Path, list[Lab]]:
    """The labs of each chapter that has some."""
    found: dict[Path, list[Lab]] = {}
    for lab in labs():
        found.setdefault(ROOT / lab.chapter.partition("#")[0], []).append(lab)
    return found


def section_of(lab: Lab) -> str:
    """The lab's section of its chapter."""
    chapter, _, anchor = lab.chapter.partition("#")
    sections = FENCE.sub("", read(ROOT / chapter)).split("\n## ")
    return next(text for text in sections if anchor in headings_of("## " + text))


def test_the_four_weeks_and_what_follows_have_every_lab_once() -> None:
    part = read(DOCS / "how-to-use.md").partition("## Four weeks")[2].partition("## For teachers")[0]
    named = Counter(re.findall(r"^\| \[(\d\d\.\d+) ", part, re.MULTILINE))
    assert named == Counter(lab.id for lab in labs())


def test_the_report_of_the_proof_has_every_lab() -> None:
    reported = re.findall(r"^\| (\d\d\.\d+) ", read(ROOT / "proof/report.md"), re.MULTILINE)
    assert reported == [lab.id for lab in labs()], "python -m labkit.prove --write, then python tools/book/check.py"


def test_the_messages_that_are_shown_are_those_that_were_proven() -> None:
    locked = read_lock()
    for lab_id, messages in read_messages().items():
        proven = {name: (locked[lab_id]["bugs"].get(name) or ["", ""])[1] for name in messages}
        lab = find_lab(lab_id)
        shown = {name: short_hash(without_values(lab, text)) for name, text in messages.items()}
        assert shown == proven, f"python -m labkit.prove {lab_id} --write"


@pytest.mark.parametrize("chapter", chapters(), ids=name_of)
def test_a_chapter_lists_its_labs_with_their_minutes(chapter: Path) -> None:
    listed = re.findall(r"^\| \[(\d\d\.\d+) .*\| (\d+) \|", read(chapter), re.MULTILINE)
    assert listed == [(lab.id, str(lab.minutes)) for lab in chapters()[chapter]]


@pytest.mark.parametrize("lab", list(labs()), ids=lambda lab: lab.id)
def test_a_section_has_the_minutes_of_its_lab(lab: Lab) -> None:
    assert set(re.findall(r"(\d+)\s+minutes", section_of(lab))) <= {str(lab.minutes)}


@pytest.mark.parametrize("readme", sorted(ROOT.glob("phase-*/README.md")), ids=name_of)
def test_the_hours_of_a_phase_are_the_minutes_of_its_labs(readme: Path) -> None:
    """Each "03.2 ... (60)" is what the lab takes, and "about six and a half hours" is the sum of those in order."""
    text, lab_id = " ".join(read(readme).split()), ""
    for named, minutes in re.findall(r"\b(\d\d\.\d+)\b|\((\d+)(?: minutes)?\)", text):
        lab_id = named or lab_id
        assert not minutes or int(minutes) == find_lab(lab_id).minutes, lab_id
    in_order = {*re.findall(r"\b\d\d\.\d+\b", text.partition("For afterwards")[0])}
    words = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    for hours, half in re.findall(rf"about ({'|'.join(words)})( and a half)? hours", text):
        said = 60 * (words.index(hours) + 1) + 30 * bool(half)
        assert abs(said - sum(find_lab(each).minutes for each in in_order)) <= 15


def test_the_hours_of_a_path_are_the_sum_of_its_table() -> None:
    paths = read(DOCS / "how-to-use.md").partition("\n## For teachers")[0].split("\n## ")[1:]
    assert len(paths) == 4
    for path in paths:
        (hours,) = re.findall(r"about (\d+) hours", path)
        each = [int(minutes) for minutes in re.findall(r"^\| together \| (\d+) \|", path, re.MULTILINE)]
        assert abs(60 * int(hours) - sum(each)) <= 30, path.partition("\n")[0]
        for week in each if "an hour a day" in path else ():
            assert week <= 7 * 66, "a week of about an hour a day"


def test_the_steps_of_a_mini_build_have_the_minutes_of_the_labs() -> None:
    steps = re.findall(r"^## \d+\..*, (\d+) minutes$", read(DOCS / "phase-01-paged-kv/mini-build.md"), re.MULTILINE)
    assert steps == [str(lab.minutes) for lab in labs() if lab.id.startswith("01.")]


@each_page()
def test_a_page_counts_the_engines_of_a_break_it_lab(page: Path) -> None:
    """Of the phase's first lab in which tests are written."""
    for lab in labs():
        if lab.title.startswith("Break it") and page.parent.name == lab.folder.parents[1].name:
            names = list(unpack(read(lab.versions)))
            num_correct = sum(name.startswith("correct") for name in names)
            counts = {
                "correct": num_correct,
                "": len(names),
                **dict.fromkeys(("buggy", "broken"), len(names) - num_correct),
            }
            for number, kind in re.findall(r"\b(\d+)\s+(?:(correct|buggy|broken)\s+)?(?:engines|ones)\b", read(page)):
                assert int(number) == counts[kind], f"{number} {kind} engines"


@cache
def known_tests() -> set[str]:
    """The names of all tests of the repository, and of their files."""
    rooms = ("mini_vllm", "labkit", "tools", *(path.name for path in ROOT.glob("phase-*")))
    files = [file for room in rooms for file in (ROOT / room).rglob("test_*.py")]
    return {file.stem for file in files} | {
        name for file in files for name in re.findall(r"^def (test_\w+)", read(file), re.MULTILINE)
    }


@each_page()
def test_tests_that_a_page_names_are_there(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", read(page)))
    assert {name for name in named if not any(each.startswith(name) for each in known_tests())} == set()
    for part in re.split(r"^## .*: lab (?=\d\d\.\d+$)", read(page), flags=re.MULTILINE)[1:]:
        lab_id, rest = part[:4], part.partition("\n## ")[0]
        source = "".join(read(file) for file in find_lab(lab_id).folder.glob("test_*.py"))
        rows = re.findall(r"^\| \d+ \|.*\|(.*)\|$", rest, re.MULTILINE)
        missing = [each for row in rows for each in re.findall(r"`(\w+)`", row) if f"def test_{each}(" not in source]
        assert missing == [], lab_id


def test_what_is_said_of_the_grader_is_what_it_does() -> None:
    text = read(DOCS / "how-to-use.md").partition("## For teachers")[2]
    for outcome in (PASSED, FAILED, TODO, HANG, NOT_RUN, NOT_GRADED):
        assert f"\n| `{outcome}` |" in text
    assert f"A test has {FIRST_SECONDS:g} seconds, and {AFTER_A_HANG:g} once another" in text
    assert f"lab has {SECONDS:g} second on each engine" in text
    assert f"{WALL_TIMES} times as many seconds by the clock" in text
    assert f"({MEMORY >> 30} GiB)" in text
    assert f"In a page a test has {web.SECONDS:g} seconds" in text


# --- commands -----------------------------------------------------------------------------------------------------


def commands(page: Path) -> Iterator[str]:
    """What a page tells the reader to type, without what only waits or needs more than this repository."""
    for fence in FENCE.finditer(read(page)):
        if fence["info"] == "console":
            lines = re.sub(r"\\\n\s*", "", fence["body"]).splitlines()
            prompted = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
            for line in prompted or lines:
                if command := re.sub(r"(^|\s+)#.*", "", line).strip():
                    yield command


ALL_COMMANDS = sorted({command for page in PAGES for command in commands(page)})
LONG = (  # or what another test or command runs, too
    r"lab test \d\d$|pytest |python (-m labkit\.prove|benchmarks/|tools/)|.*triton-simple|.* 2048$"
    r"|lab run 0[123]$|lab run 0[25] |mini-vllm bench .*( 32|prefill_first|128| 32 .*|ngram)$|mini-vllm demo$"
    r"|.*beam_search|.*doctor$"
)
INSTALLING = [command for command in ALL_COMMANDS if re.match(r"make |pip |source |python -m venv", command)]


def test_commands_that_install_name_what_there_is() -> None:
    makefile = read(ROOT / "Makefile")
    extras = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]["optional-dependencies"]
    for page in [*PAGES, ROOT / "README.md"]:
        for target in re.findall(r"(?:^ *|`)make ([a-z][\w-]*)", read(page), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{name_of(page)}: make {target}"
        for named in re.findall(r"pip install [^`\n]*\.\[([\w,]+)\]", read(page)):
            assert set(named.split(",")) <= set(extras), f"{name_of(page)}: [{named}]"


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository as a newcomer has it: no mine.py, no progress."""
    folder = tmp_path_factory.mktemp("repository")
    call = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.rstrip("\0").split("\0"):
        if "mine.py" not in name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def type_in(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in a folder that holds the repository."""
    env = {
        **os.environ,
        "PATH": str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"],
        "PYTHONPATH": str(folder),
        "COLUMNS": "100",
    }
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        env.pop(name, None)
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=env, capture_output=True, text=True, timeout=COMMAND_SECONDS
    )


def hand_in_the_reference(lab: Lab, folder: Path) -> None:
    """A learner has passed the lab."""
    (folder / lab.mine.relative_to(ROOT)).write_text(render_solution(lab), encoding="utf-8")
    run = type_in(f"lab test {lab.id}", folder)
    assert run.returncode == 0, run.stdout


@pytest.mark.skipif(not (shutil.which("git") and shutil.which("bash")), reason="needs git and bash")
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(each, marks=pytest.mark.nightly if re.match(LONG, each) else pytest.mark.slow)
        for each in ALL_COMMANDS
        if each not in INSTALLING
    ],
    ids=str,
)
def test_a_command_works_as_typed(command: str, scratch: Path) -> None:
    if (passed := re.match(r"lab diff (\d\d\.\d+)$", command)) is not None:
        hand_in_the_reference(find_lab(passed[1]), scratch)
    run = type_in(command, scratch)
    is_grading = re.match(r"lab (test|grade)|pytest ", command) is not None  # red is what an unwritten lab is
    assert run.returncode in ((0, 1) if is_grading else (0,)), run.stdout[-2000:] + run.stderr[-2000:]
    assert "Traceback" not in run.stderr
    assert "unrecognized arguments" not in run.stderr


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("git") and shutil.which("bash")), reason="needs git and bash")
def test_commands_are_typed_into_the_copy(scratch: Path) -> None:
    run = type_in('python -c "import labkit.labs.catalog, mini_vllm; print(labkit.labs.catalog.ROOT)"', scratch)
    assert run.stdout.strip() == str(scratch)


GRADE = """
import json, sys
sys.path.insert(0, ".")
from labkit.web import book as web
outcomes = {lab: {each["outcome"] for each in json.loads(web.grade(lab, text))} for lab, text in json.load(sys.stdin)}
json.dump([web.__file__, {lab: sorted(found) for lab, found in outcomes.items()}], sys.stdout)
"""


@pytest.mark.slow
def test_the_grader_of_a_page_has_all_its_modules(tmp_path: Path) -> None:
    """What the site carries is enough: all labs are graded on it, with the standard library alone."""
    pytest.importorskip("mkdocs", reason="pip install -e '.[docs]' brings mkdocs")
    from tools.book import hooks

    for name, text in hooks.sources_of_cells().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text or "", encoding="utf-8")

    def grade(texts: dict[str, str], expected: str) -> None:
        call, text = [sys.executable, "-I", "-S", "-c", GRADE], json.dumps([*texts.items()])
        ran = subprocess.run(call, input=text, capture_output=True, text=True, cwd=tmp_path)
        assert ran.returncode == 0, ran.stderr
        where, outcomes = json.loads(ran.stdout.splitlines()[-1])
        assert where == str(tmp_path / "labkit" / "web" / "book.py")
        assert outcomes == {lab_id: [expected] for lab_id in texts}

    grade({lab.id: render_stub(lab) for lab in hooks.labs_of_pages()}, "todo")
    some = "01.6", "02.1", "02.5", "02.6", "03.12", "03.13", "03.14", "08.6"
    grade({lab_id: render_solution(find_lab(lab_id)) for lab_id in some}, "passed")
