"""The built site: it is built strictly, its links arrive, and in a browser it works, by itself and for every reader.

    pytest -m nightly tools/book/test_site.py      all of it
    pytest -m smoke tools/book/test_site.py        six pages, as the gate looks at them

Needs the extra "docs", `npm run build` in tools/book/web, and Chromium. What is missing is said and skipped.
"""

import functools
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from labkit.labs.catalog import ROOT, Lab, labs
from tools.book.browser import CHAPTERS, CHROMIUM, FLAGS, LIGHTHOUSE, OF_THE_THEME

pytestmark = pytest.mark.nightly

WEB = ROOT / "tools" / "book" / "web"
AXE = WEB / "node_modules" / "axe-core" / "axe.min.js"
PATIENCE_MS = 120_000  # a backstop: a page answers in a second or two, Python in it in six
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 720}
NUM_PARTS = 6  # of the pages: each a test, which any worker can take


def assert_none(found: Collection[str]) -> None:
    assert not found, "\n" + "\n".join(sorted(found))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built strictly: here, or just before by `make book`, where BOOK_SITE says."""
    if "BOOK_SITE" in os.environ:
        return Path(os.environ["BOOK_SITE"])
    pytest.importorskip("mkdocs", reason="pip install -e '.[docs]' brings mkdocs")
    folder = tmp_path_factory.mktemp("site")
    call = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    run = subprocess.run(call, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> list[str]:
    found = sorted(file.relative_to(site).as_posix() for file in site.rglob("*.html"))
    return [page for page in found if page != "404.html"]


def test_it_is_a_small_download(site: Path) -> None:
    """Without Pyodide, the model and the sources, which a running cell fetches; no source maps of the theme."""
    of_cells = {"pyodide", "files", "sources.json"}
    files = [file for file in site.rglob("*") if file.is_file() and not of_cells & set(file.parts)]
    assert_none([file.name for file in files if file.suffix == ".map"])
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < 3_000_000


# --- links --------------------------------------------------------------------------------------------------------


class Document(HTMLParser):
    """The ids of a page, and where its links lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = {""}
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src", "data-src") and value is not None:
                self.links.append(value)


def links_of(site: Path, page: str) -> set[str]:
    """Where a page leads inside the site, from its root."""
    links = Document((site / page).read_text(encoding="utf-8")).links
    return {urljoin(f"http://site/{page}", link).removeprefix("http://site/") for link in links}


def test_every_link_inside_the_site_arrives(site: Path, pages: list[str]) -> None:
    documents = {page: Document((site / page).read_text(encoding="utf-8")) for page in pages}
    broken = set()
    for page, document in documents.items():
        for link in document.links:
            parts = urlsplit(urljoin(f"http://site/{page}", link))
            if parts.netloc != "site" or parts.scheme != "http":
                continue
            target = unquote(parts.path).removeprefix("/") or "index.html"
            target += "index.html" if target.endswith("/") else ""
            anchor = unquote(parts.fragment) if target in documents else ""
            if not (site / target).is_file() or (anchor and anchor not in documents[target].ids):
                broken.add(f"{page}: {link}")
    assert_none(broken)


# --- in a browser -------------------------------------------------------------------------------------------------


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    """Where the site is served."""
    if not (WEB / "dist").exists():
        pytest.skip("make book has not built tools/book/web")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[docs]' brings playwright")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


class OfAFork(Quiet):
    """A host that has the book in a folder, and shows its 404.html for every address that is not there."""

    def translate_path(self, path: str) -> str:
        return super().translate_path(path.removeprefix("/fork/book") if path.startswith("/fork/book/") else "/none")

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        page = Path(self.directory, "404.html").read_bytes() if self.command == "GET" else b""
        self.send_response(code)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(page)


class Visitor:
    """A page of the browser that notes what goes wrong: requests to other hosts, errors, what is not there."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.url = url
        self.context = browser.new_context(**options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.wrong: list[str] = []
        self.page.on("request", lambda request: self.note_request(request.url))
        self.page.on("pageerror", lambda error: self.note_error(str(error)))
        self.page.on("console", lambda message: self.note_message(message.type, message.text))
        self.page.on("response", lambda response: self.note_status(response.status, response.url))

    def note_request(self, url: str) -> None:
        if not url.startswith((self.url, "data:", "blob:")):
            self.wrong.append(f"{self.page.url} asks {url}")

    def note_error(self, text: str) -> None:
        if text != OF_THE_THEME:
            self.wrong.append(f"{self.page.url}: {text}")

    def note_message(self, kind: str, text: str) -> None:
        if kind == "error":
            self.wrong.append(f"{self.page.url}: {text}")

    def note_status(self, status: int, url: str) -> None:
        if status >= 400:
            self.wrong.append(f"{self.page.url}: {status} for {url}")

    def go(self, page: str) -> Any:
        self.page.goto(self.url + page)
        self.page.wait_for_load_state("networkidle")
        return self.page


@pytest.fixture
def visit(browser: Any, url: str) -> Iterator[Any]:
    """Makes visitors; at the end nothing may have gone wrong."""
    visitors: list[Visitor] = []

    def make(**options: Any) -> Visitor:
        visitors.append(Visitor(browser, url, **options))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.context.close()
    assert_none({line for visitor in visitors for line in visitor.wrong})


@pytest.mark.smoke
def test_six_pages_open_and_draw(visit: Any) -> None:
    """Every kind of page: no error, nothing asked of another host, one title, and the figures that are in it."""
    visitor = visit(viewport=DESK)
    for page in ("index.html", *CHAPTERS, "labs.html", "load.html"):
        shown = visitor.go(page)
        assert shown.locator("main h1").count() == 1, page
        shown.locator("main details").evaluate_all("all => all.forEach((each) => (each.open = true))")
        for figure in shown.locator("div.kv-timeline").all():
            figure.scroll_into_view_if_needed()
            figure.locator("kv-timeline .row").first.wait_for()


@pytest.mark.parametrize("page", ["index.html", *CHAPTERS])
def test_figures_are_drawn(visit: Any, page: str) -> None:
    shown = visit().go(page)
    figures = shown.locator("kv-timeline").count()
    assert figures > 0 or shown.locator("main svg, main img").count() > 0


def test_marks_stand_below_their_steps(visit: Any) -> None:
    """On a phone, too, where cells are as narrow as they can be."""
    shown = visit(viewport=PHONE).go(CHAPTERS[2])
    shown.locator("div.kv-timeline[data-src*=thrash]").scroll_into_view_if_needed()
    figure = shown.locator("kv-timeline[src*=thrash]")
    figure.locator(".cell.preempted").first.wait_for()
    width = "(parts) => parts.map((part) => part.offsetWidth / part.style.getPropertyValue('--n'))"
    widths = figure.locator(".row > :is(.tick, .cell)").evaluate_all(width)
    assert max(widths) - min(widths) <= 1


def test_it_reads_without_javascript(visit: Any) -> None:
    shown = visit(java_script_enabled=False).go("index.html")
    assert "prefill chunk" in shown.inner_text("main")


@pytest.mark.smoke
def test_two_clicks_lead_from_the_home_page_to_a_red_test(visit: Any) -> None:
    shown = visit(viewport=DESK).go("index.html")
    shown.get_by_role("link", name="Write your first part").click()
    for viewport in (PHONE, DESK):  # it lands where the task is explained: nothing has to be scrolled for it
        shown.set_viewport_size(viewport)
        task = shown.get_by_text("Your task.").locator("..").bounding_box()
        assert 0 < task["y"] < task["y"] + task["height"] < viewport["height"]
    shown.get_by_role("button", name="Grade").first.click()
    shown.locator(".lab-first").wait_for()
    assert "is not written yet" in shown.locator(".lab-cell .bench-output").first.inner_text()


def test_a_contract_says_why_no_page_grades_its_lab(site: Path) -> None:
    for lab in labs():
        folder = lab.folder.relative_to(ROOT).as_posix()
        page = (site / folder / "contract.html").read_text(encoding="utf-8")
        says = "This lab is graded on your own machine. It needs" in page
        assert says == (not (site / "assets" / "labs" / f"{lab.id}.json").exists()), lab.id


@pytest.mark.parametrize("lab", list(labs()), ids=lambda lab: lab.id)
def test_a_contract_and_its_section_are_one_click_apart(site: Path, lab: Lab) -> None:
    folder = lab.folder.relative_to(ROOT).as_posix()
    chapter, _, anchor = lab.chapter.removeprefix("docs/").partition("#")
    section = f"{chapter.removesuffix('.md')}.html"
    ways = {name: links_of(site, f"{folder}/{name}.html") for name in ("contract", "hints")}
    assert all({f"{section}#{anchor}", "labs.html"} <= links for links in ways.values())
    assert f"{folder}/contract.html" in links_of(site, section) & links_of(site, "labs.html")
    assert f"{section}#{anchor}" in links_of(site, "labs.html")


def test_formulas_are_set_in_the_pages_themselves(site: Path, pages: list[str]) -> None:
    """As mathematics that can be heard, without a script; none is left as TeX, and none in red, as what KaTeX cannot
    read."""
    numbers = {}
    for page in pages:
        text = (site / page).read_text(encoding="utf-8")
        assert not re.search(r'class="arithmatex">\s*\\[(\[]', text), page
        assert "katex-error" not in text, page
        numbers[page] = text.count("<math ")
        in_one_line = re.findall(r'search-exclude><span class="katex">(?!<span)', text)  # read as they are seen
        assert text.count('class="arithmatex"') == numbers[page] + len(in_one_line)
    assert numbers[CHAPTERS[0]] > 7
    assert numbers[CHAPTERS[4]] > 1


def test_a_number_and_its_unit_stay_in_one_line(site: Path, pages: list[str]) -> None:
    for page in pages:
        article = re.search(r"<article.*</article>", (site / page).read_text("utf-8"), re.DOTALL)
        text = re.sub(r"<(pre|code|svg)\b.*?</\1>|<[^>]*>", "", article[0] if article else "", flags=re.DOTALL)
        assert not re.search(r"\d[ \n](%|GB|GiB|ms|µs)(?!\w)", text), page


def test_a_source_link_leads_to_numbered_lines(visit: Any) -> None:
    shown = visit(viewport=DESK).go(CHAPTERS[2])
    shown.locator("main a[href$='py/mini_vllm/scheduler.py']").first.click()
    shown.locator(".cm-lineNumbers").wait_for()
    assert shown.locator("main h1").inner_text() == "mini_vllm/scheduler.py"
    assert "The scheduler" in shown.locator(".cm-content").inner_text()
    assert shown.get_by_role("link", name="as plain text").get_attribute("href").endswith("/py/mini_vllm/scheduler.py")


@pytest.mark.parametrize("name", ["", "py/nothing.py", "py/../index.html", "https://example.org/x.py"])
def test_a_source_that_is_not_there_is_said(visit: Any, name: str) -> None:
    visitor = visit()
    visitor.go(f"source.html?file={name}").get_by_text("There is no file").wait_for()
    visitor.wrong = [line for line in visitor.wrong if "404" not in line]


def test_a_term_says_what_it_means_where_it_stands(site: Path) -> None:
    """Every link to an entry of the glossary has its first sentences."""
    for page in CHAPTERS:
        terms = re.findall(r'<a href="[^"]*glossary\.html#[^"]+"[^>]*>', (site / page).read_text(encoding="utf-8"))
        assert len(terms) > 5
        assert_none([term for term in terms if not re.search(r'title="\w[^"]{30,}"', term)])


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_cheat_sheet_is_printed_on_two_pages(visit: Any, chapter: str) -> None:
    shown = visit().go(chapter.replace("guide", "cheat-sheet"))
    assert len(re.findall(rb"/Type\s*/Page\b", shown.pdf(format="A4"))) <= 2


def test_paper_has_the_values_of_the_calculators(visit: Any) -> None:
    shown = visit().go("calculators.html")
    shown.emulate_media(media="print")
    forms = shown.locator(".calculator-form")
    assert forms.count() == shown.locator(".calculator").count() > 3
    for i in range(forms.count()):
        assert forms.nth(i).locator(".calculator-results dd").first.is_visible()
        assert forms.nth(i).locator(":is(select, output)").first.is_visible()
    assert not forms.locator("input[type=range]").first.is_visible()


ON_PAPER = "dispatchEvent(new Event('beforeprint'))"  # pictures that were not near are drawn


def test_paper_is_light_whatever_the_screen_was(visit: Any) -> None:
    shown = visit(color_scheme="dark").go(CHAPTERS[2])
    shown.locator("body[data-md-color-scheme=slate]").wait_for()
    shown.locator("div.kv-timeline").first.scroll_into_view_if_needed()
    shown.locator("kv-timeline .row").first.wait_for()
    shown.evaluate(ON_PAPER)
    shown.emulate_media(media="print", color_scheme="dark")
    colours = """([selector, property]) => {
        const outer = document.querySelector(selector);
        return getComputedStyle(outer.shadowRoot?.querySelector("figure") ?? outer)[property];
    }"""
    assert shown.evaluate(colours, ["kv-timeline", "backgroundColor"]) == "rgb(255, 255, 255)"
    assert shown.evaluate(colours, [".picture", "filter"]) == "none"
    channels = re.findall(r"[\d.]+", shown.evaluate(colours, [".md-typeset", "color"]))
    assert max(map(float, channels[:3])) < 100, "dark ink"


def test_a_phone_has_pictures_of_its_own(visit: Any) -> None:
    for viewport, kind in [(PHONE, "narrow"), (DESK, "wide")]:
        shown = visit(viewport=viewport).go(CHAPTERS[2])
        num_places = shown.locator("main .picture-place").count()
        shown.evaluate(ON_PAPER)
        pictures = shown.locator("main .picture:visible")
        assert pictures.count() >= num_places > 1
        for picture in pictures.all():
            assert kind in picture.get_attribute("class").split()
            assert picture.bounding_box()["width"] <= viewport["width"]


def test_a_figure_says_that_it_scrolls(visit: Any) -> None:
    for viewport, state in [(PHONE, "visible"), (DESK, "hidden")]:
        shown = visit(viewport=viewport).go(CHAPTERS[2])
        shown.locator("div.kv-timeline[data-src*=thrash]").scroll_into_view_if_needed()
        figure = shown.locator("kv-timeline[src*=thrash]")
        figure.locator(".cell.preempted").first.wait_for()
        figure.get_by_text("scrolls sideways").wait_for(state=state)


QUESTIONS = {  # what readers look for, and a page that answers
    "chunked prefill": "phase-03-continuous-batching-scheduler/guide.html",
    "how do I install": "install.html",
    "install on windows": "install.html",
    "what is a block table": "phase-01-paged-kv/guide.html",
    "slot mapping": "phase-01-paged-kv/guide.html",
    "online softmax": "phase-01-paged-kv/guide.html",
    "triton kernel mask": "phase-01-paged-kv/guide.html",
    "flash-decoding": "phase-01-paged-kv/deep-dive.html",
    "prefix caching": "phase-02-kv-manager/guide.html",
    "free queue order": "phase-02-kv-manager/guide.html",
    "why is a block evicted": "phase-02-kv-manager/guide.html",
    "allocate_slots": "phase-02-kv-manager/guide.html",
    "preemption": "phase-03-continuous-batching-scheduler/guide.html",
    "token budget": "phase-03-continuous-batching-scheduler/guide.html",
    "swap or recompute": "phase-03-continuous-batching-scheduler/schedulers.html",
    "02.4": "phase-02-kv-manager/labs/lab-04-slots/contract.html",
    "hints for 02.1": "phase-02-kv-manager/labs/lab-01-free-queue/hints.html",
    "speculative decoding": "phase-05-speculative-decoding/guide.html",
    "time to first token": "glossary.html",
    "json schema grammar": "serving.html",
    "SamplingParams": "api/core.html",
    "BlockPool.get_new_blocks": "api/core.html",
    "chat in the browser": "ask.html",
    "weekend": "how-to-use.html",
    "engine throughput": "benchmarks/results/engine.html",
    "goodp": "glossary.html",  # not typed to its end
}
RANK = """
import { readFileSync } from "node:fs";
const { makeRanking } = await import(process.argv[1]);
const find = makeRanking(JSON.parse(readFileSync(process.argv[2], "utf-8")));
const pages = (question) => find(question).slice(0, 3).map(([first]) => first.location);
console.log(JSON.stringify(JSON.parse(process.argv[3]).map(pages)));
"""


def first_pages(site: Path, asked: list[str]) -> dict[str, list[str]]:
    """By question the first three pages: the ranking alone, as the worker of the search box calls it."""
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    ranking = (WEB / "src" / "ranking.js").as_uri()
    call = ["node", "--input-type=module", "-e", RANK, ranking, str(site / "assets/search.json"), json.dumps(asked)]
    run = subprocess.run(call, capture_output=True, encoding="utf-8")
    assert run.returncode == 0, run.stderr
    return dict(zip(asked, json.loads(run.stdout), strict=True))


@pytest.mark.smoke
def test_a_search_shows_the_right_page_among_the_first_three(site: Path) -> None:
    """Some question finds nothing."""
    found = first_pages(site, [*QUESTIONS, "xylophone", ""])
    assert found["xylophone"] == found[""] == []
    assert_none([f"{each}: {found[each]}" for each, page in QUESTIONS.items() if page not in found[each]])


@pytest.mark.smoke
@pytest.mark.parametrize("part", ["first", "more"])
def test_newcomers_find_a_right_page_among_the_first_three(site: Path, part: str) -> None:
    """With words of their own: of 33 questions 31 are answered so."""
    asked: dict[str, list[str]] = json.loads((WEB.parent / "newcomers.json").read_text(encoding="utf-8"))[part]
    found = first_pages(site, [*asked])
    missed = [f"{each}: {found[each]}" for each, pages in asked.items() if not {*pages} & {*found[each]}]
    assert len(missed) <= len(asked) * 2 // 33, "\n" + "\n".join(missed)


def test_the_index_of_the_search_is_loaded_when_a_reader_types(visit: Any) -> None:
    visitor = visit()
    asked: list[str] = []
    visitor.page.on("request", lambda request: asked.append(request.url))
    shown = visitor.go("index.html")
    assert not [url for url in asked if url.endswith("/search.json")]
    shown.locator(".md-search__input").click()
    shown.locator(".md-search__input").type("preemption", delay=10)
    shown.wait_for_selector(".md-search-result__item a")
    found = shown.locator(".md-search-result__item a").evaluate_all("links => links.map(link => link.href)")
    assert any("phase-03" in link for link in found)
    assert any("glossary" in link for link in found)
    assert [url for url in asked if url.endswith("/search.json")]


@pytest.mark.parametrize("place", ["", "phase-03/labs/"])
def test_a_wrong_address_leads_back_into_the_book(site: Path, browser: Any, place: str) -> None:
    """From any folder, and for any folder of a host; what was asked for can be searched at once."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(OfAFork, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    book = f"http://127.0.0.1:{server.server_port}/fork/book/"
    page = browser.new_page(viewport=PHONE)
    page.goto(f"{book}{place}chunked-prefill.html")
    page.wait_for_function("book => document.baseURI === book", arg=book)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
    if AXE.exists():
        page.evaluate(AXE.read_text(encoding="utf-8"))
        assert_none([*what_axe_finds(page)])
    for link in page.locator("main a").all():
        assert page.request.get(link.evaluate("link => link.href")).ok
    page.get_by_role("button", name="Search").click()
    page.locator(".md-search-result__item a[href*=phase-03]").first.wait_for()
    page.close()
    server.shutdown()
    server.server_close()


def test_pages_have_titles_and_descriptions_of_their_own(site: Path, pages: list[str]) -> None:
    for what in (r"<title>(.+?)</title>", r'<meta name="description" content="(.+?)">'):
        found: dict[str, list[str]] = {}
        for page in pages:
            [words] = re.findall(what, (site / page).read_text(encoding="utf-8"), re.DOTALL)
            found.setdefault(words, []).append(page)
        assert_none([f"{words}: {shared}" for words, shared in found.items() if len(shared) > 1])


@pytest.mark.parametrize(
    "schemes", [("default", "slate", "default"), ("slate", "default", "slate")], ids=["light", "dark"]
)
def test_dark_mode_toggles(visit: Any, schemes: tuple[str, ...]) -> None:
    """What the system prefers is what comes first."""
    shown = visit(color_scheme="light" if schemes[0] == "default" else "dark").go("index.html")
    for scheme in schemes:
        shown.locator(f"body[data-md-color-scheme={scheme}]").wait_for()
        shown.get_by_role("button", name="Dark mode").click()


OF_COLOUR = ["color-contrast", "link-in-text-block"]  # axe's rules whose answer another palette can change
SETTLED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
TO_DARK = f"""async () => {{
    document.querySelector(".book-scheme").click();
    await {SETTLED};
    await Promise.allSettled(document.getAnimations().map((animation) => animation.finished));
    return document.body.dataset.mdColorScheme;
}}"""


def what_axe_finds(shown: Any, rules: list[str] | None = None) -> Iterator[str]:
    """Violations of impact serious or critical, of these rules or of all."""
    options = {"resultTypes": ["violations"]} | ({"runOnly": {"type": "rule", "values": rules}} if rules else {})
    for violation in shown.evaluate("async (options) => (await axe.run(document, options)).violations", options):
        if violation["impact"] in ("serious", "critical"):
            node = violation["nodes"][0]
            summary = re.sub(r"\s+", " ", node["failureSummary"] or "")
            yield f"{violation['id']} x{len(violation['nodes'])} {node['target']} {summary}"


@pytest.mark.parametrize("part", range(NUM_PARTS))
def test_every_page_opens_by_itself_and_keeps_nobody_out(visit: Any, pages: list[str], part: int) -> None:
    """Nothing is asked of another host and the console is silent; axe finds nothing serious, in light and in dark; on a
    phone nobody has to scroll sideways. One visit for all of it: a page takes longer to load than to look at."""
    visitor = visit(color_scheme="light", viewport=DESK)
    visitor.context.add_init_script("localStorage.clear()")  # every page begins in light
    found = []
    for page in pages[part::NUM_PARTS]:
        visitor.page.set_viewport_size(DESK)
        shown = visitor.go(page)
        if (number := shown.locator("main h1").count()) != 1:
            found.append(f"{page} has {number} headings of the first level")
        if AXE.exists():
            assert shown.locator("body").get_attribute("data-md-color-scheme") == "default"
            shown.evaluate(AXE.read_text(encoding="utf-8"))
            found += [f"{page}, light: {line}" for line in what_axe_finds(shown)]
            assert shown.evaluate(TO_DARK) == "slate"
            found += [f"{page}, dark: {line}" for line in what_axe_finds(shown, OF_COLOUR)]
        shown.set_viewport_size(PHONE)
        shown.evaluate(SETTLED)
        if (width := shown.evaluate("document.scrollingElement.scrollWidth")) > PHONE["width"]:
            found.append(f"{page} is {width} wide on a phone")
    assert_none(found)
    if not AXE.exists():
        pytest.skip("npm ci in tools/book/web brings axe-core; the rest was looked at")


@pytest.fixture(scope="module")
def lighthouse() -> list[str]:
    """The command that examines a page in Chromium."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    if shutil.which("npx") is None or subprocess.run([*LIGHTHOUSE, "--version"], capture_output=True).returncode:
        pytest.skip("npx does not bring lighthouse")
    flags = " ".join(["--headless", *FLAGS])
    kinds = ["--only-categories=accessibility", "--disable-full-page-screenshot"]
    return [*LIGHTHOUSE, "--quiet", "--preset=desktop", "--output=json", *kinds, f"--chrome-flags={flags}"]


@pytest.mark.parametrize("page", ["index.html", *CHAPTERS])
def test_it_is_open_to_everybody(lighthouse: list[str], url: str, page: str) -> None:
    """What Lighthouse says of the home page and the guides; how quick they are is benchmarks/bench_pages.py's."""
    env = {**os.environ, "CHROME_PATH": str(CHROMIUM)}
    run = subprocess.run([*lighthouse, url + page], env=env, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["categories"]["accessibility"]["score"] >= 0.95
