"""What mkdocs is told beyond mkdocs.yml: cells, links to the repository's files, and what lies outside docs/.

A chapter links to a file of the repository as it does on a code host, by its relative path. In the site, contracts and
hints of the labs are pages with a way back to their chapter. Python files that a page links to lie under py/ as they
are, and tools/book/web shows them with numbered lines. A link to a file that is not there is a warning, hence an error
of the strict build. `<!-- search: words, other words -->` below a title says what readers call what the page has, and
a search finds the page by these words.
"""

import ast
import io
import json
import logging
import posixpath
import re
import subprocess
from functools import cache
from html import escape, unescape
from pathlib import Path
from typing import Any

import markdown
from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page
from rich.console import Console

from labkit.labs import evidence, source
from labkit.labs.catalog import TRACES, Lab, labs
from tools.book.pictures import PICTURES

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "tools" / "book" / "web" / "dist"  # made by `npm run build` in tools/book/web
PURGECSS = WEB.parent / "node_modules" / "purgecss"
KATEX = WEB.parent / "node_modules" / "katex"
BUNDLED_MODEL = ROOT / "mini_vllm" / "models" / "tiny"
ROOMS_OF_A_PAGE = (
    *("offload", "policies", "observe", "load", "simulator", "spec_decode", "structured"),
    *("engine", "frontend", "models", "worker", "light"),
)
ARRAYS = "mini_vllm/light/numpy_ops.py"  # in a page JavaScript computes
OUTSIDE = (
    "phase-*/labs/*/*.md",
    "benchmarks/results/*",
    "tools/mutation/survivors.md",
    "traces/README.md",
    "traces/*/README.md",
)
COMMANDS = re.compile(r"^```console( no-run)?$", re.MULTILINE)  # for Pygments, a line without a prompt is output
LINK = re.compile(r"\]\((?P<path>(?:\.\./)+[\w./-]+)(?P<anchor>#[\w-]+)?\)")
TERM = re.compile(r'<a href="(?P<link>(?:[\w./-]*/)?glossary\.(?:md|html)#(?P<anchor>[\w-]+))">')
PICTURE = re.compile(r'<img alt="(?P<alt>[^"]*)" src="(?P<path>[^":]+)\.svg"[^>]*>')
SEARCHED_AS = re.compile(r"^<!-- search: (.+?) -->$", re.MULTILINE | re.DOTALL)
TASK = re.compile(r"\bin\s+`(?P<folder>phase-[\w-]+/labs/[\w-]+)/mine\.py`")
HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
ENTRY = re.compile(r"^### (?P<term>.+)\n(?:<!-- .* -->\n)?\n(?P<text>.+)", re.MULTILINE)
KINDS = {  # of pages, by a part of their paths; how much counts what a search finds there
    "/contract": ("Contract", 0.95),
    "/hints": ("Hints", 0.6),
    "/guide": ("Guide", 1.3),
    "phase-": ("Chapter", 1.0),
    "serving.html": ("Guide", 1.3),
    "glossary": ("Glossary", 0.9),
    "api/": ("API", 0.6),
    **dict.fromkeys(("measured.html", "tests.html"), ("Results", 0.9)),
    **dict.fromkeys(("benchmarks/", "tools/", "traces/"), ("Records", 0.4)),
    "": ("Course", 1.0),
}
START = ("Start", 1.6)  # the pages of the first part of the nav, which newcomers look for
FORMULA = re.compile(
    r'(?P<begin><(?P<tag>span|div) class="arithmatex")>\s*\\[(\[](?P<tex>.*?)\\[)\]]\s*</(?P=tag)>', re.DOTALL
)
UNUSED = re.compile(r"\.map$|^assets/javascripts/(lunr|workers)/")
SEARCH_OF_THE_THEME = re.compile(r"assets/javascripts/workers/search\.\w+\.min\.js")
SPACE = re.compile(r"(<(pre|textarea|script|template)\b.*?</\2>)|\s*\n\s*", re.DOTALL)
PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
DESCRIPTION = 160  # characters
CELL = re.compile(r"<t[dh]\b.*?</t[dh]>", re.DOTALL)
NAME = re.compile(r"(?<=<code>)[^<]+")
DOT = re.compile(r"(?<=[./])(?=\w)")
UNITS = re.compile(r"<(pre|code|svg)\b.*?</\1>|(?<=\d)((?:</span>)*)\s(?=(?:%|[kMG]i?B|[µm]s|GB/s)(?!\w))", re.DOTALL)
SEAM = re.compile(r"(?<=[^\W_]_)(?=\w)|(?<=[a-z])(?=[A-Z])")
OF_A_LAB = {"contract.md": "Contract", "hints.md": "Hints"}
WHY_NOT_HERE = {  # what a lab needs, and why no page grades it
    "triton": "It needs PyTorch and Triton, and neither runs in a browser.",
    "torch": "It needs PyTorch, which does not run in a browser, and NumPy, which neither PyPI nor npm has for one.",
    "cc": "It needs a C compiler, and a browser has none.",
}
SOURCE = """---
search: {exclude: true}
hide: [navigation, toc]
---

# Source

<div class="source-view" markdown="1">

With JavaScript a file of the repository is shown here, with numbered lines.

</div>
"""
TOOLTIP = 240  # characters
LOG = logging.getLogger("mkdocs.hooks.book")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The fence of a cell that runs."""
    fences = config.mdx_configs.setdefault("pymdownx.superfences", {}).setdefault("custom_fences", [])
    fences.append({"name": "python", "class": "py-cell", "format": render_cell, "validator": is_cell})
    config.watch += [str(ROOT / "mini_vllm"), str(ROOT / "tools" / "book"), *map(str, ROOT.glob("phase-*"))]
    return config


def is_cell(language: str, inputs: dict[str, str], options: dict[str, Any], attrs: Any, md: Any) -> bool:
    """Whether a fence is a cell: ```python cell="name"."""
    options.update(inputs)
    return "cell" in inputs


def render_cell(source: str, language: str, css_class: str, options: dict[str, Any], md: Any, **more: Any) -> str:
    """Plain code; tools/book/web makes an editor with a Run button of it."""
    name = escape(str(options["cell"]))
    code = f'<pre><code class="language-python">{escape(source)}</code></pre>'
    return f'<div class="py-cell" data-cell="{name}">{code}</div>'


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages and files from outside docs/. What the theme brings for its own search and its developers is left out."""
    for file in [file for file in files if UNUSED.search(file.src_uri)]:
        files.remove(file)
    for path in sorted(path for pattern in OUTSIDE for path in ROOT.glob(pattern)):
        files.append(generated(config, path.relative_to(ROOT).as_posix(), path))
    files.append(File.generated(config, "assets/sources.json", content=json.dumps(sources_of_cells())))
    for path in files_of_the_model():
        files.append(generated(config, f"assets/files/{path.relative_to(ROOT).as_posix()}", path))
    for lab in labs_of_pages():
        files.append(File.generated(config, f"assets/labs/{lab.id}.json", content=json.dumps(lab_of_page(lab))))
    files.append(File.generated(config, "source.md", content=SOURCE, inclusion=InclusionLevel.NOT_IN_NAV))
    for path in sorted(WEB.rglob("*")) if WEB.exists() else []:
        if path.is_file():
            files.append(generated(config, "assets/" + path.relative_to(WEB).as_posix(), path))
    return files


def generated(config: MkDocsConfig, uri: str, path: Path) -> File:
    return File.generated(config, uri, abs_src_path=str(path), inclusion=InclusionLevel.NOT_IN_NAV)


def sources_of_cells() -> dict[str, str | None]:
    """What a cell can import, and what the labs in a page are graded with: path to text.

    None stands for a file that worker.js fetches from assets/files/ when it is read.
    """
    core = ("__init__", "errors", "params", "step", "request", "block_hash", "block_pool", "kv_cache")
    paths = [ROOT / "mini_vllm" / f"{name}.py" for name in (*core, "scheduler_interface", "scheduler", "config")]
    for room in ROOMS_OF_A_PAGE:
        found = (ROOT / "mini_vllm" / room).rglob("*.py")
        paths += [path for path in found if not path.name.startswith("test_")]
    paths += modules_of_the_grader() | modules_of_the_labs()
    paths += ROOT.glob("phase-*/labs/labs.toml")
    for lab in labs_of_pages():
        for pattern in ("contract.md", "stub.py", "test_*.py", "versions.txt"):
            paths += lab.folder.glob(pattern)
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(paths)}
    texts[ARRAYS] = (ROOT / "tools/book/ops_of_a_page.py").read_text(encoding="utf-8")
    return texts | traces_of_labs(texts) | {path.relative_to(ROOT).as_posix(): None for path in files_of_the_model()}


def files_of_the_model() -> list[Path]:
    return sorted(path for path in BUNDLED_MODEL.iterdir() if path.suffix in (".json", ".safetensors"))


def traces_of_labs(texts: dict[str, str]) -> dict[str, str]:
    """What these files name of the traces recorded from vLLM: a page need not load the other traces."""
    quoted = {word for text in texts.values() for word in re.findall(r'"(\w+_\d{3})"', text)}
    found = {}
    for file in sorted(TRACES.glob("*.jsonl")):
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        if named := [line for line in lines if json.loads(line)["name"] in quoted]:
            found[file.relative_to(ROOT).as_posix()] = "".join(named)
    return found


def modules_of_the_grader() -> set[Path]:
    """labkit.web.book, what the labs see of labkit, and all of it that these import, also inside functions."""
    found: set[Path] = set()
    following = ["labkit.web.book", *(module for lab in labs_of_pages() for module in lab.modules)]
    while following:
        name = following.pop()
        path = ROOT / name.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        if name.split(".")[0] == "labkit" and file.exists() and file not in found:
            found.add(file)
            following.append(name.rpartition(".")[0])
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.module:
                    following += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def modules_of_the_labs() -> set[Path]:
    """What the labs see of the engine, with the packages that it lies in."""
    names = {module for lab in labs_of_pages() for module in lab.modules if module.startswith("mini_vllm.")}
    files = {(ROOT / name.replace(".", "/")).with_suffix(".py") for name in names}
    files = {file if file.exists() else file.with_suffix("") / "__init__.py" for file in files}
    packages = {folder for file in files for folder in file.parents if ROOT in folder.parents}
    return files | {folder / "__init__.py" for folder in packages}


def labs_of_pages() -> list[Lab]:
    """The labs that Python alone can grade."""
    return [lab for lab in labs() if not lab.needs]


def lab_of_page(lab: Lab) -> dict[str, Any]:
    """What tools/book/web/src/labs.js shows of a lab."""
    hints = [text.partition("\n") for text in (lab.folder / "hints.md").read_text(encoding="utf-8").split("\n## ")[1:]]
    return {
        "id": lab.id,
        "title": lab.title,
        "minutes": lab.minutes,
        "section": section_of(lab),
        "contract": (lab.folder / "contract.html").relative_to(ROOT).as_posix(),
        "next": next_of(lab),
        "stub": source.render_stub(lab).replace("is in contract.md", "is in the contract"),
        "hints": [{"title": title, "html": markdown.markdown(text)} for title, _, text in hints],
        "reference": source.render_solution(lab),
        "evidence": {case: text_of_evidence(lab, case) for case in lab.cases},
    }


def text_of_evidence(lab: Lab, case: str) -> str:
    """What `lab evidence` prints."""
    out = Console(file=io.StringIO(), width=88)
    evidence.tell(lab, case, out)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue().strip()


def next_of(lab: Lab) -> dict[str, str] | None:
    """The lab after this one, and its section in the site; None after the last."""
    order = list(labs())
    following = order[order.index(lab) + 1 :]
    if not following:
        return None
    return {"title": f"{following[0].id} {following[0].title}", "section": section_of(following[0])}


def section_of(lab: Lab) -> str:
    """The lab's section of its chapter, in the site."""
    return lab.chapter.removeprefix("docs/").replace(".md", ".html")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that leave docs/ get their place in the site; the pages of a lab get the way back to its chapter.

    A lab that a page grades is written in its editor, not in a file.
    """
    uri = page.file.src_uri
    base = posixpath.dirname(uri)
    if uri == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    line = f"```text\ngit clone {config.repo_url}\n```" if config.repo_url else ""
    markdown = markdown.replace("<!-- clone -->", line)
    if heading := HEADING.search(markdown):
        page.meta["title"] = heading[1].replace("`", "")  # in the nav three pages are "Guide"
    here = {lab.folder for lab in labs_of_pages()}
    for lab in labs():
        if ROOT / base == lab.folder:
            title, _, rest = markdown.partition("\n")
            why_not = why_not_here(lab) if uri.endswith("contract.md") else ""
            markdown = f"{title}\n\n{way_back(lab, posixpath.basename(uri))}\n{why_not}{rest}"
    markdown = TASK.sub(lambda task: task[0] if ROOT / task["folder"] not in here else "in the editor below", markdown)
    inside = "" if page.file.generated_by else "docs"

    def place(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(inside, base, match["path"]))
        if target.startswith("docs/"):
            uri = target.removeprefix("docs/")
        elif target.endswith(".py"):
            uri = "py/" + target
            if files.get_file_from_path(uri) is None and (ROOT / target).exists():
                files.append(generated(config, uri, ROOT / target))
        else:
            uri = target
        if files.get_file_from_path(uri) is None:
            where = "in the book" if (ROOT / target).exists() else "there"
            LOG.warning("%s links to %s, which is not %s", page.file.src_uri, target, where)
        return f"]({posixpath.relpath(uri, base or '.')}{match['anchor'] or ''})"

    return LINK.sub(place, COMMANDS.sub("```text", markdown))


def way_back(lab: Lab, name: str) -> str:
    """Where to go from a page of a lab, as a line of links, relative to the lab's folder in the repository."""
    up = "../../../"
    links = [f"[Section in the chapter]({up}{lab.chapter})"]
    links += [f"[{title}]({file})" for file, title in OF_A_LAB.items() if file != name]
    links += [f"[All labs]({up}docs/labs.md)"]
    return " · ".join(links) + "\n{: .lab-way }\n"


def why_not_here(lab: Lab) -> str:
    """A line for the contract of a lab that no page grades."""
    found = next((reason for need, reason in WHY_NOT_HERE.items() if need in lab.needs), None)
    return f"\n*This lab is graded on your own machine. {found}*\n{{: .lab-not-here }}\n" if found else ""


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A term of the glossary says what it means. A picture is drawn in the page, for a desk and for a phone,
    when it comes near: a chapter has a thousand elements of them.

    A number and its unit stay in one line. In a table a long name may break after a dot or a slash, and on a phone
    between its words, too.
    """

    def explained(term: re.Match[str]) -> str:
        return f'<a href="{term["link"]}" title="{escape(definitions()[term["anchor"]])}">'

    def drawn(picture: re.Match[str]) -> str:
        draw = PICTURES.get(posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), picture["path"])))
        if draw is None:
            return picture[0]
        wide, narrow = draw(False), draw(True)
        alt = unescape(picture["alt"])
        svg = wide.inline("picture wide", alt) + narrow.inline("picture narrow", alt)
        style = f"--wide:{wide.width}/{wide.height};--narrow:{narrow.width}/{narrow.height};--most:{wide.width}px"
        rest = f"<template>{svg}</template><noscript>{picture[0]}</noscript>"
        return f'<span class="picture-place" style="{style}" data-search-exclude>{rest}</span>'

    def breakable(name: re.Match[str]) -> str:
        return SEAM.sub('<wbr class="phone">', DOT.sub("<wbr>", name[0]))

    if paragraph := PARAGRAPH.search(html):
        page.meta["description"] = shortened(plain(paragraph[1]), DESCRIPTION)
    if page.file.name == "cheat-sheet":
        html = f'<div class="cheat-sheet">\n{html}\n</div>'  # the style sheet prints it on two pages
    # The theme makes a tooltip of each title, which takes a phone half a second where a page has hundreds of sections.
    html = html.replace('title="Link to this section"', 'aria-label="Link to this section"')
    html = html.replace('<div class="kv-timeline"', '<div class="kv-timeline" data-search-exclude')
    html = PICTURE.sub(drawn, set_formulas(html))
    html = UNITS.sub(lambda found: found[0] if found[1] else found[2] + "\N{NO-BREAK SPACE}", html)
    html = TERM.sub(lambda term: explained(term) if term["anchor"] in definitions() else term[0], html)
    return CELL.sub(lambda cell: NAME.sub(breakable, cell[0]), html)


def set_formulas(html: str) -> str:
    """Formulas as KaTeX sets them: a page needs no script for them, and looks the same without a font for mathematics.

    Without Node they stand there in TeX.
    """
    found = [(unescape(formula["tex"]), formula["tag"] == "div") for formula in FORMULA.finditer(html)]
    if not found or not KATEX.exists():
        return html
    call = ["node", str(WEB.parent / "formulas.mjs")]
    run = subprocess.run(call, input=json.dumps(found), capture_output=True, encoding="utf-8", check=True)
    made = iter(json.loads(run.stdout))
    return FORMULA.sub(lambda formula: f"{formula['begin']} data-search-exclude>{next(made)}</{formula['tag']}>", html)


@cache
def definitions() -> dict[str, str]:
    """The first sentences of every term of the glossary, by its anchor, as plain text."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    plain = re.sub(r"\[([^]]*)]\([^)]*\)|`([^`]*)`", r"\1\2", text)
    return {slugify(entry["term"], "-"): shortened(entry["text"]) for entry in ENTRY.finditer(plain)}


def shortened(text: str, most: int = TOOLTIP) -> str:
    """As many of the first sentences as fit into so many characters, one at least."""
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", text)
    while len(sentences) > 1 and len(" ".join(sentences)) > most:
        sentences.pop()
    return " ".join(sentences)


def plain(html: str) -> str:
    return " ".join(unescape(TAG.sub("", html)).split())


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The search box of the theme asks the book's own worker, tools/book/web/src/search.js. The theme's templates leave
    a tenth of each page empty.
    """
    output = SEARCH_OF_THE_THEME.sub("assets/search.js", output)
    return SPACE.sub(lambda found: found[1] or "\n", output)


def on_post_build(config: MkDocsConfig) -> None:
    """The index of the search, which is loaded when a reader types: address, title, text, kind, and what readers say.

    The theme loads its own with every page, so that is empty. Its style sheets lose what no page uses.
    """
    if PURGECSS.exists():
        subprocess.run(["node", str(WEB.parent / "purge.mjs"), config.site_dir], check=True)
    file = Path(config.site_dir, "search", "search_index.json")
    index = json.loads(file.read_text(encoding="utf-8"))
    [start] = config.nav[0].values()
    of_start = {uri if isinstance(uri, str) else next(iter(uri.values())) for uri in start}
    sections = [
        [
            *(section["location"], plain(section["title"]), plain(section["text"])),
            START[0] if page_of(section["location"]) in of_start else kind_of(section["location"]),
            said_of(section["location"]),
        ]
        for section in index["docs"]
        if "/hints.html#" not in section["location"]  # a search gives no hint away
    ]
    found = {"kinds": dict([*KINDS.values(), START]), "sections": sections}
    Path(config.site_dir, "assets", "search.json").write_text(json.dumps(found, ensure_ascii=False), encoding="utf-8")
    file.write_text(json.dumps(index | {"docs": []}), encoding="utf-8")


def page_of(location: str) -> str:
    """The Markdown file of a section, from docs/."""
    return location.partition("#")[0].removesuffix(".html") + ".md"


def said_of(location: str) -> str:
    """What readers say for what a page has: its `<!-- search: words, words -->`; "" for a section of it."""
    page = ROOT / "docs" / page_of(location)
    said = SEARCHED_AS.search(page.read_text(encoding="utf-8")) if "#" not in location and page.is_file() else None
    return " ".join(said[1].split()) if said else ""


def kind_of(location: str) -> str:
    """What kind of page a section is on."""
    part = next(part for part in KINDS if part in location.partition("#")[0])
    return KINDS[part][0]
