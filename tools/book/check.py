"""What the pages repeat from other files, and what they cite of vLLM: `python tools/book/check.py [--check]`.

docs/SUMMARY.md      the nav of mkdocs.yml as mdBook reads it

In a page, this script writes what stands between

    <!-- include: proof/report.md -->                   a file, without its title (what is no Markdown as code); with
    <!-- /include -->                                   words behind the name only the paragraph or table with them

    <!-- labs: docs/phase-03-.../guide.md 03.1 03 -->   pages, labs and phases as a table, with minutes and their sum
    <!-- /labs -->

    <!-- every: lab -->                                 all labs, with their section, contract and hints; with "phase"
    <!-- /every -->                                     all phases, with the minutes of their labs and of their pages

    <!-- message: 03.2 newcomers_first -->              what a learner reads for a seeded bug
    <!-- /message -->

--check writes nothing. Exit status 1 if something is stale (with --check), if a page is in no nav, if a row of a table
has more or fewer cells than the head of its table, if the text breaks a rule of docs/writing.md that can be looked for,
if a link into vLLM is not [`symbol`](...blob/v0.33.0/PATH#LINE) as traces/vllm-0.33.0/symbols.json has it, if a
docstring names a file or a symbol of vLLM that is not there, or if a paragraph that ends with <!-- vllm: NAME --> says
something else than traces/vllm-0.33.0/defaults.json does (both by tools/index_vllm.py).
"""

import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from posixpath import relpath
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from labkit.labs.catalog import C_COMPILER, DEFAULTS, SYMBOLS, VLLM, Lab, LabkitError, labs, phases  # noqa: E402
from labkit.prove.report import read_messages  # noqa: E402

DOCS = ROOT / "docs"
SUMMARY = DOCS / "SUMMARY.md"
WRITING = DOCS / "writing.md"
MARKED = re.compile(
    r"<!-- (?P<kind>include|labs|every|message): (?P<what>[^>]+?) -->\n.*?<!-- /(?P=kind) -->", re.DOTALL
)
WORDS_A_MINUTE = 150  # of a page that is read to be understood

NOT_PROSE = re.compile(r"^```.*?^```|<!-- (?:message|include).*?<!-- /|`[^`\n]*`", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^[ >]*(?:[-*+] |(?=\d+[.)]\s))", re.MULTILINE)  # where an item of a list begins; its number stays
GLOSSARY = DOCS / "glossary.md"  # the bundled model has learnt it word for word
RECITED = "Continuous batching forms the batch anew"  # in the glossary
ROOMS = ("mini_vllm", "labkit", "tools")  # whose docstrings and comments are read

VLLM_URL = re.compile(r"(?:\[(?P<text>[^\[\]]*)\]\()?https?://(?P<url>[\w.]*(?:github|vllm)[\w.]*/[^\s)>\"']*)")
UNLINKED = re.compile(r"`(?P<symbol>[\w.]+)` of `(?P<path>(?!mini_vllm|labkit|tools)\w+(?:/\w+)+)\.py`")
AT_PIN = f"github.com/vllm-project/vllm/blob/v{VLLM}/"


def pages() -> list[Path]:
    """The pages of the book."""
    return sorted(file for file in DOCS.rglob("*.md") if file != SUMMARY)


def name_of(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


# --- the table of contents ----------------------------------------------------------------------------------------


def nav() -> dict[str, list[tuple[str, str]]]:
    """mkdocs.yml's nav: title and page, by part."""
    parts: list[dict[str, list[Any]]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    return {
        part: [next(iter(entry.items())) if isinstance(entry, dict) else ("", entry) for entry in entries]
        for each in parts
        for part, entries in each.items()
    }


def title_of(page: Path) -> str:
    """The heading a page begins with."""
    return page.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ") if page.exists() else page.stem


def summary() -> str:
    """The nav for mdBook, and for a code host."""
    lines = ["# Summary"]
    for part, entries in nav().items():
        lines += ["", f"# {part}", ""]
        lines += [f"- [{title or title_of(DOCS / uri)}]({uri})" for title, uri in entries]
    return "\n".join(lines) + "\n"


def wrong_in_nav() -> Iterator[str]:
    """Entries without a page, and pages without an entry."""
    listed = [DOCS / uri for entries in nav().values() for _, uri in entries]
    yield from (
        f"mkdocs.yml: the nav lists {name_of(page)}, which is not there" for page in listed if not page.exists()
    )
    yield from (f"{name_of(page)} is not in the nav of mkdocs.yml" for page in pages() if page not in listed)


# --- what a page repeats ------------------------------------------------------------------------------------------


def mend(page: Path, text: str) -> str:
    """A page with its marked parts as they must be. Raises ValueError for a marker that means nothing."""

    def part(match: re.Match[str]) -> str:
        kind, what = match["kind"], match["what"]
        if kind == "include":
            body = included(*what.split(maxsplit=1))
        elif kind == "every":
            body = {"lab": every_lab, "phase": every_phase}[what](page)
        else:
            body = table_of(page, what.split()) if kind == "labs" else message_of(*what.split())
        return f"<!-- {kind}: {what} -->\n\n{body}\n\n<!-- /{kind} -->"

    return MARKED.sub(part, text)


def included(file: str, words: str = "") -> str:
    """A file without its title, or its one paragraph that has these words."""
    paragraphs = (ROOT / file).read_text(encoding="utf-8").strip().split("\n\n")
    if not file.endswith(".md"):
        return f"```{Path(file).name.lower()}\n" + "\n\n".join(paragraphs) + "\n```"
    if not words:
        return "\n\n".join(paragraphs[1:] if paragraphs[0].startswith("# ") else paragraphs)
    found = [paragraph for paragraph in paragraphs if words in paragraph]
    if len(found) != 1:
        raise ValueError(f"{len(found)} paragraphs of {file} have {words!r}, not 1")
    return found[0]


def message_of(lab_id: str, bug: str) -> str:
    """The golden message of a seeded bug. Raises KeyError if there is none."""
    return "```text\n" + read_messages()[lab_id][bug] + "\n```"


def table_of(page: Path, what: list[str]) -> str:
    """Pages, labs and phases with their minutes."""
    rows, total = ["| what | minutes | needs |", "|---|---:|---|"], 0
    for each in what:
        if each.endswith(".md"):
            chapter = ROOT / each
            minutes = minutes_to_read(chapter)
            title = f"read: {title_of(chapter)}"
            rows.append(f"| [{title}]({link(page, chapter)}) | {minutes} | |")
            total += minutes
            continue
        chosen = [lab for lab in labs() if each in (lab.id, lab.id.partition(".")[0])]
        if not chosen:
            raise ValueError(f"there is no lab or phase {each}")
        rows += [row_of(page, lab) for lab in chosen]
        total += sum(lab.minutes for lab in chosen)
    return "\n".join([*rows, f"| together | {total} | |"])


def row_of(page: Path, lab: Lab) -> str:
    contract = link(page, lab.folder / "contract.md")
    return f"| [{lab.id} {lab.title}]({contract}) | {lab.minutes} | {needs_of(lab)} |"


def needs_of(lab: Lab) -> str:
    names = {"torch": "PyTorch", "triton": "Triton", C_COMPILER: "C compiler"}
    return ", ".join(names[need] for need in lab.needs) or "Python alone"


def every_lab(page: Path) -> str:
    """All labs in the order in which they are meant to be done."""
    rows = ["| lab | minutes | needs | |", "|---|---:|---|---|"]
    for lab in labs():
        section, _, anchor = lab.chapter.partition("#")
        files = {name: link(page, lab.folder / f"{name}.md") for name in ("contract", "hints")}
        links = "&nbsp;·&nbsp;".join(f"[{name}]({target})" for name, target in files.items())
        title = f"[{lab.id} {lab.title}]({link(page, ROOT / section)}#{anchor})"
        rows.append(f"| {title} | {lab.minutes} | {needs_of(lab)} | {links} |")
    return "\n".join(rows)


def every_phase(page: Path) -> str:
    """The phases with the minutes of their labs, and of the pages that the nav has of them."""
    rows = ["| phase | labs | minutes of labs | minutes to read | together |", "|---|---:|---:|---:|---:|"]
    total = [0, 0, 0, 0]
    for phase in phases():
        guide = ROOT / phase.labs[0].chapter.partition("#")[0]
        of_nav = [DOCS / uri for entries in nav().values() for _, uri in entries]
        reading = sum(minutes_to_read(each) for each in of_nav if each.parent == guide.parent)
        writing = sum(lab.minutes for lab in phase.labs)
        numbers = [len(phase.labs), writing, reading, writing + reading]
        total = [old + new for old, new in zip(total, numbers, strict=True)]
        name = title_of(guide).partition(":")
        rows.append(row(f"[{name[0]}]({link(page, guide)}): {name[2].strip()}", numbers))
    return "\n".join([*rows, row("together", total)])


def row(title: str, numbers: list[int]) -> str:
    return f"| {title} | " + " | ".join(f"{number:,}" for number in numbers) + " |"


def minutes_to_read(page: Path) -> int:
    """Rounded up to 5; 0 for a page that is still to be written."""
    words = len(page.read_text(encoding="utf-8").split()) if page.exists() else 0
    return -(-words // (5 * WORDS_A_MINUTE)) * 5


def link(page: Path, target: Path) -> str:
    return relpath(target.as_posix(), page.parent.as_posix())


# --- what it cites of vLLM ----------------------------------------------------------------------------------------


class Citation(NamedTuple):
    """A definition in vLLM's source that a page names; line: None where there is no link."""

    module: str
    symbol: str
    line: int | None


def module_of(path: str) -> str:
    return path.removesuffix("/__init__").replace("/", ".")


def citations(text: str) -> Iterator[Citation | str]:
    """The citations of a page; a string says what is wrong with a link."""
    for match in VLLM_URL.finditer(text):
        url, words = match["url"], match["text"] or ""
        if url.startswith("docs.vllm.ai/en/") and not url.startswith(f"docs.vllm.ai/en/v{VLLM}/"):
            yield f"{url} is of another version than {VLLM}"
        if not re.match(r"github\.com/vllm-project/vllm/(blob|tree|raw|blame)/", url):
            if "githubusercontent.com/vllm-project" in url:
                yield f"{url}: link to {AT_PIN}"
            continue
        path, _, line = url.removeprefix(AT_PIN).partition("#L")
        if not url.startswith(AT_PIN):
            yield f"{url} is not at the pin {VLLM}"
        elif not (words.startswith("`") and words.endswith("`") and line.isdecimal() and path.endswith(".py")):
            yield f"[{words}]({url}): cite as [`symbol`]({AT_PIN}PATH.py#LINE)"
        else:
            yield Citation(module_of(path.removesuffix(".py")), words.strip("`"), int(line))
    for match in UNLINKED.finditer(text):
        yield Citation(module_of("vllm/" + match["path"]), match["symbol"], None)


def wrong_citations() -> Iterator[str]:
    """Links to vLLM's source that do not lead to what they name."""
    index: dict[str, dict[str, int]] = json.loads(SYMBOLS.read_text(encoding="utf-8"))
    for page in pages():
        for found in citations(page.read_text(encoding="utf-8")):
            if isinstance(found, str):
                yield f"{name_of(page)}: {found}"
            elif found.module not in index:
                yield f"{name_of(page)}: {found.module} is not in symbols.json; tools/index_vllm.py adds what is cited"
            elif found.symbol not in index[found.module]:
                yield f"{name_of(page)}: {found.module} of vLLM {VLLM} has no `{found.symbol}`"
            elif found.line not in (None, line := index[found.module][found.symbol]):
                yield f"{name_of(page)}: `{found.symbol}` of {found.module} is at line {line}, not {found.line}"


SOURCE = re.compile(r"(?:(?P<symbol>\w+(?:\.\w+)*)(?: in |,? \())?(?<![\w/.-])(?P<path>vllm/[\w/]+)(?P<is_file>\.py)?")
OF_VLLM = re.compile(r"(?<![\w/.-])vllm/")
OF_V0 = re.compile(r"\bV0\b|0\.5\.5")  # whose files are not in the wheel


@cache
def cited_files() -> list[tuple[Path, re.Match[str]]]:
    """What docstrings and comments name of vLLM's source."""
    found = []
    for file in (file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))):
        source = file.read_text(encoding="utf-8")
        for text in docstrings_and_comments(source) if OF_VLLM.search(source) else ():
            plain = " ".join(text.split())
            if OF_VLLM.search(plain) and not OF_V0.search(plain):
                found += [(file, match) for match in SOURCE.finditer(plain)]
    return found


def wrong_sources() -> Iterator[str]:
    """Files and symbols of vLLM that docstrings name, and that are not there."""
    index: dict[str, dict[str, int]] = json.loads(SYMBOLS.read_text(encoding="utf-8"))
    for file, found in cited_files():
        module, symbol = module_of(found["path"]), found["symbol"]
        if module not in index:
            yield f"{name_of(file)}: {found['path']} is not in symbols.json; tools/index_vllm.py adds what is cited"
        elif found["is_file"] and symbol and not any(f".{name}".endswith(f".{symbol}") for name in index[module]):
            yield f"{name_of(file)}: {module} of vLLM {VLLM} has no {symbol}"


BLOCKS = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|\|) )")  # paragraphs, items of lists and rows of tables
RELIES = re.compile(r"<!-- vllm: (\w+) -->")


def wrong_defaults(text: str, defaults: dict[str, Any]) -> Iterator[str]:
    """Paragraphs that do not say what vLLM does by default.

    A paragraph has the value as a word, or of several values the first ones, at least two, as code and in their order.
    """
    for block in BLOCKS.split(text):
        for name in RELIES.findall(block):
            plain, value = " ".join(RELIES.sub("", block).split()), defaults.get(name)
            code = re.findall(r"`([^`]+)`", plain)
            if isinstance(value, list):
                said = list(dict.fromkeys(word for word in code if word in value))
                holds = len(said) >= min(2, len(value)) and said == value[: len(said)]
            else:
                holds = re.search(rf"(?<![\w.]){re.escape(str(value))}(?!\w|\.\w)", plain) is not None
            if name not in defaults:
                yield f"defaults.json has no {name}: {plain[:80]}"
            elif not holds:
                yield f"vLLM {VLLM} has {name} {value}, and this says something else: {plain[:80]}"


def stale_defaults() -> Iterator[str]:
    """Those of all pages and of README, and what no paragraph says."""
    defaults: dict[str, Any] = json.loads(DEFAULTS.read_text(encoding="utf-8"))
    relied = set()
    for page in [*pages(), ROOT / "README.md"]:
        text = page.read_text(encoding="utf-8")
        relied |= set(RELIES.findall(text))
        if re.search(r"^\s*<!-- vllm: ", text, re.MULTILINE):
            yield f"{name_of(page)}: a line that begins with <!-- vllm: --> ends its paragraph on a code host"
        yield from (f"{name_of(page)}: {wrong}" for wrong in wrong_defaults(text, defaults))
    yield from (f"no page has <!-- vllm: {name} -->" for name in defaults if name not in relied)


# --- how it is written --------------------------------------------------------------------------------------------


def badly_written(text: str) -> Iterator[str]:
    """Sentences of a text that are no questions and begin with a pronoun in the place of the thing that acts."""
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|\|) )", NOT_PROSE.sub(" ", text)):
        for cell in [] if RECITED in paragraph else paragraph.split("|"):
            for sentence in re.split(r"(?<=[.!?:])[*_)\"”]*\s+", cell):
                plain = sentence.strip().lstrip('#*->_("1234567890. ')
                begun = re.match(r"(Who|Whoever|Somebody|Nobody)\b", plain)
                if begun and not plain.rstrip('*_)"').endswith("?"):
                    yield " ".join(plain.split())


def banned_words() -> re.Pattern[str]:
    """The left column of the table in docs/writing.md."""
    found = re.findall(r"^\| `([^`]+)` \|", WRITING.read_text(encoding="utf-8"), re.MULTILINE)
    return re.compile(rf"\b({'|'.join(map(re.escape, found))})\b", re.IGNORECASE)


def lines_with(words: re.Pattern[str], text: str) -> Iterator[str]:
    """Lines of a text that have one of the words outside of code."""
    yield from (line.strip() for line in NOT_PROSE.sub(" ", text).splitlines() if words.search(line))


def docstrings_and_comments(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def broken_rows(text: str) -> Iterator[str]:
    """Lines of tables that have more or fewer cells than the table's head; what ends a table is an empty line."""
    num_cells = 0
    for line in re.sub(r"^```.*?^```|<!--.*?-->", "", text, flags=re.MULTILINE | re.DOTALL).splitlines():
        cells = re.sub(r"`[^`]*`|\\\|", "", line.strip()).split("|")
        if not line.strip():
            num_cells = 0
        elif re.fullmatch(r"\|(:?-+:?\|)+", line.replace(" ", "")):
            num_cells = len(cells)
        elif num_cells and (len(cells) != num_cells or cells[0] or cells[-1]):
            yield line


def wrong_tables() -> Iterator[str]:
    for page in pages():
        yield from (f"{name_of(page)}: a broken row: {row[:80]}" for row in broken_rows(page.read_text("utf-8")))


def lists_that_run_together(text: str) -> Iterator[str]:
    """Items that a reader sees as running text: numbers that follow each other in one paragraph, and a list that begins
    in the line below a paragraph, where Markdown sees no list. A line that begins with a number looks like one."""
    for paragraph in re.split(r"\n\s*\n", NOT_PROSE.sub("``", text)):
        begun = ITEM.match(paragraph)
        if not begun and (item := ITEM.search(paragraph)):
            yield paragraph[item.start() :].strip().partition("\n")[0]
        for item in ITEM.split(paragraph):
            words = " ".join(item.split())
            numbers = [int(number) for number in re.findall(r"(?:^|(?<=[.:;!?)`] ))(\d+)[.)] ", words)]
            if (
                any(after == before + 1 for before, after in pairwise(numbers))
                or len(re.findall(r"[.:;] - ", words)) > 1
            ):
                yield words


def prose() -> Iterator[tuple[Path, str]]:
    """Pages, contracts and hints."""
    files = [*pages(), ROOT / "README.md", *ROOT.glob("phase-*/README.md"), *ROOT.glob("phase-*/labs/*/*.md")]
    for file in [*files, ROOT / "CONTRIBUTING.md"]:
        text = file.read_text(encoding="utf-8")
        examples = r"^\| not \| but \|$.*?\n\n" if file == WRITING else r"(?!)"
        yield file, re.sub(examples, "", text, flags=re.MULTILINE | re.DOTALL)


def strings() -> Iterator[tuple[Path, str]]:
    """The strings of the code, which are docstrings and messages."""
    for pattern in ("mini_vllm/**/*.py", "labkit/**/*.py", "phase-*/labs/*/*.py"):
        for file in ROOT.glob(pattern):
            if not file.name.startswith("mine"):
                for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                        yield file, node.value


def wrong_in_style() -> Iterator[str]:
    words = banned_words()
    for file, text in [*prose(), *strings()]:
        yield from (f"{name_of(file)}: see docs/writing.md: {sentence}" for sentence in badly_written(text))
    for file, text in prose():
        yield from (f"{name_of(file)}: a list runs together: {item[:80]}" for item in lists_that_run_together(text))
    code = [(file, file.read_text(encoding="utf-8")) for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    comments = [(file, text) for file, source in code for text in docstrings_and_comments(source)]
    for file, text in [*prose(), *comments]:
        if file != GLOSSARY:
            yield from (f"{name_of(file)}: see docs/writing.md: {line}" for line in lines_with(words, text))


# --- all of it ----------------------------------------------------------------------------------------------------


def wanted() -> dict[Path, str]:
    """Every file that this script writes, as it must be."""
    return {SUMMARY: summary()} | {page: mend(page, page.read_text(encoding="utf-8")) for page in pages()}


def stale() -> dict[Path, str]:
    """Those that are not."""
    return {
        file: text for file, text in wanted().items() if not file.exists() or file.read_text(encoding="utf-8") != text
    }


def main() -> int:
    """The exit status."""
    only_check = "--check" in sys.argv
    try:
        changed = stale()
    except (OSError, ValueError, KeyError, LabkitError) as error:
        print(error)
        return 1
    for file, text in changed.items():
        print(f"{name_of(file)}: {'stale' if only_check else 'written'}")
        if not only_check:
            file.write_text(text, encoding="utf-8")
    of_vllm = [*wrong_citations(), *wrong_sources(), *stale_defaults()]
    wrong = [*wrong_in_nav(), *wrong_tables(), *of_vllm, *wrong_in_style()]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return int(bool(wrong or (changed and only_check)))


if __name__ == "__main__":
    sys.exit(main())
