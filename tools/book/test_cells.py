"""The pages of the book in a browser: cells, labs and calculators, from a small site of their own.

Needs `npm run build` in tools/book/web, playwright and chromium; without one of them the tests are skipped, and say so.
"""

import contextlib
import io
import json
import re
import shutil
import subprocess
import textwrap
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from labkit.grade.runner import read_tests
from labkit.labs import source
from labkit.labs.catalog import find_lab, labs
from labkit.labs.implementations import seeded_bugs
from labkit.web import book as web
from tools.book.browser import OF_THE_THEME
from tools.book.excerpts import cut
from tools.book.test_site import TO_DARK

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "tools" / "book" / "web"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = """--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()
NO_OTHER_HOST = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
PATIENCE_MS = 120_000  # a backstop, 20 times what the first run takes

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(
        not (WEB / "dist" / "book.js").exists(), reason="tools/book/web is not built: npm ci && npm run build"
    ),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium"),
]

PAGES = {
    "index.md": "# Start\n\nA page without anything that runs.\n",
    "cells.md": """# Cells

```python cell="draw"
import json

from mini_vllm.observe.trace import run_trace

config = {"block_size": 4, "num_blocks": 12, "max_num_seqs": 4, "max_num_batched_tokens": 8, "vocab_size": 100}
requests = [{"id": name, "prompt": list(range(1, 11)), "max_tokens": 4, "ignore_eos": True} for name in "ab"]
run_trace({"name": "two", "config": config, "requests": requests})
```

```python cell="print"
print("hello")
[1, 2, 3]
```
""",
    "ask.md": re.sub(r"\((glossary|phase-)[^)]*\)", "(index.md)", (ROOT / "docs/ask.md").read_text(encoding="utf-8")),
    "yours.md": '# Yours\n\n<div class="engine-chat" data-labs="02.4 03.1 03.2" markdown="1">\n\nOn disk.\n\n</div>\n',
    "lab.md": '# Lab\n\n<div class="lab-cell" data-lab="02.1" markdown="1">\n\nOn disk: `lab watch 02.1`.\n\n</div>\n',
    "debug.md": '# Lab\n\n<div class="lab-cell" data-lab="02.6" markdown="1">\n\nOn disk.\n\n</div>\n',
    "labs.md": """# All labs

<div class="all-labs" markdown="1">

| lab | minutes | needs | |
|---|---:|---|---|
| [02.1 The free queue](lab.md) | 40 | Python alone | [contract](lab.md) · [hints](lab.md) |
| 02.2 Taking, sharing and freeing blocks | 30 | PyTorch, Triton | [contract](lab.md) · [hints](lab.md) |

</div>
""",
    "load.md": '# Load\n\n<div class="calculator" data-calculator="load" markdown="1">\n\nSteady states.\n\n</div>\n',
    "formula.md": """# Formula

A half is $\\frac12$, a slot $b B + p \\bmod B_i^{2 + 1}$.

$$
l = \\sum_i e^{s_i - m}
$$
""",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a site with PAGES and the page of the calculators."""
    commands, config = pytest.importorskip("mkdocs.commands.build"), pytest.importorskip("mkdocs.config")
    docs, built = tmp_path_factory.mktemp("docs"), tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs" / "assets", docs / "assets")
    shutil.copy(ROOT / "docs" / "calculators.md", docs)
    for name, text in PAGES.items():
        (docs / name).write_text(text, encoding="utf-8")
    nav = [{"Start": [*PAGES, "calculators.md"]}]
    options = {"docs_dir": str(docs), "site_dir": str(built), "nav": nav}
    commands.build(config.load_config(str(ROOT / "mkdocs.yml"), **options))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(built))) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        profile = tmp_path_factory.mktemp("profile")
        options = {"executable_path": CHROMIUM, "headless": True, "args": [*FLAGS, NO_OTHER_HOST]}
        context = playwright.chromium.launch_persistent_context(str(profile), **options)
        yield context
        context.close()


@pytest.fixture
def page(browser: Any, site: str) -> Iterator[Any]:
    """A page that must neither ask another host for anything nor complain on the console."""
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    asked: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda line: complaints.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    yield page
    page.close()
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []
    assert [each for each in complaints if each != OF_THE_THEME] == []


def bench(page: Any, number: int = 0) -> SimpleNamespace:
    """The parts of a cell or a lab."""
    root = page.locator(".bench[role=group]").nth(number)
    return SimpleNamespace(
        root=root,
        run=root.locator(".bench-run"),
        stop=root.locator(".bench-stop"),
        reset=root.locator(".bench-reset"),
        status=root.locator(".bench-status"),
        output=root.locator(".bench-output"),
        code=root.locator(".cm-content"),
    )


def write(page: Any, cell: SimpleNamespace, text: str) -> None:
    """Put a text in the place of what an editor holds."""
    cell.code.click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def run(page: Any, cell: SimpleNamespace, until: str = "Done") -> None:
    """Press the button and wait until the status says so."""
    cell.run.wait_for()
    cell.status.evaluate("(status) => (status.textContent = '')")
    cell.run.click()
    cell.status.filter(has_text=until).wait_for()


# --- cells ----------------------------------------------------------------------------------------------------------


def test_a_cell_draws_what_the_scheduler_does(page: Any, site: str) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site}/cells.html")
    cell = bench(page)
    cell.run.wait_for()
    assert not any("pyodide" in url for url in asked), "Python is loaded by the first run, and not before"
    run(page, cell)
    run(page, cell)
    cell.output.locator("kv-timeline").wait_for()
    assert cell.output.locator("kv-timeline").count() == 1


@pytest.mark.parametrize("number", range(3))
def test_the_engine_answers_with_the_bundled_model(page: Any, site: str, number: int) -> None:
    """What the same cell prints in this process, with the arithmetic of NumPy or PyTorch."""
    code = re.findall(r'```python cell="[\w-]+"\n(.*?)```', PAGES["ask.md"], re.DOTALL)[number]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, {"__name__": "__main__"})
    page.goto(f"{site}/ask.html")
    page.locator(".py-cell").nth(number).scroll_into_view_if_needed()  # an editor is made when its place is seen
    cell = bench(page, number)
    run(page, cell)
    lines = cell.output.inner_text().splitlines()
    assert lines[: len(printed.getvalue().splitlines())] == printed.getvalue().splitlines()
    assert cell.output.locator("kv-timeline").count() == (number > 0)


def test_printed_text_and_the_last_value(page: Any, site: str) -> None:
    page.goto(f"{site}/cells.html")
    cell = bench(page, 1)
    run(page, cell)
    assert cell.output.inner_text().splitlines() == ["hello", "[1, 2, 3]"]


def test_an_error_shows_the_learners_own_lines(page: Any, site: str) -> None:
    page.goto(f"{site}/cells.html")
    cell = bench(page, 1)
    write(page, cell, "def half(x):\n    return x / 0\n\nhalf(1)\n")
    page.keyboard.press("Control+Enter")
    cell.status.filter(has_text="error").wait_for()
    said = cell.output.inner_text()
    assert "ZeroDivisionError: division by zero" in said
    assert 'File "cell.py", line 2, in half' in said
    assert "labkit" not in said
    cell.reset.click()
    run(page, cell)
    assert "hello" in cell.output.inner_text()


def test_a_loop_without_an_end_is_stopped_and_the_next_run_works(page: Any, site: str) -> None:
    page.goto(f"{site}/cells.html")
    cell = bench(page, 1)
    write(page, cell, 'print("in")\nwhile True:\n    pass')
    cell.run.click()
    cell.output.filter(has_text="in").wait_for()
    cell.stop.click()
    cell.status.filter(has_text="Stopped").wait_for()
    write(page, cell, "6 * 7")
    run(page, cell)
    assert cell.output.inner_text().strip() == "42"


def test_endless_recursion_and_endless_output_do_not_break_the_page(page: Any, site: str) -> None:
    page.goto(f"{site}/cells.html")
    cell = bench(page, 1)
    write(page, cell, "def again():\n    again()\n\nagain()\n")
    run(page, cell, "error")
    assert "RecursionError" in cell.output.inner_text()
    write(page, cell, "for i in range(10**5):\n    print('x' * 50)\n")
    run(page, cell)
    assert "more was printed" in cell.output.inner_text()


def test_a_cell_does_not_see_what_another_one_changed(page: Any, site: str) -> None:
    page.goto(f"{site}/cells.html")
    cell = bench(page, 1)
    write(page, cell, "import mini_vllm.block_pool as pool\n\npool.BlockPool = None\nleft = 1\n")
    run(page, cell)
    write(page, cell, "from mini_vllm.block_pool import BlockPool\n\nBlockPool.__name__, 'left' in globals()")
    run(page, cell)
    assert cell.output.inner_text().strip() == "('BlockPool', False)"


def test_the_keyboard_is_enough(page: Any, site: str) -> None:
    page.goto(f"{site}/cells.html")
    cell = bench(page, 1)
    cell.code.click()
    page.keyboard.press("Tab")  # it indents
    assert cell.code.evaluate("(code) => code === document.activeElement")
    page.keyboard.press("Escape")
    assert cell.run.evaluate("(button) => button === document.activeElement")
    page.keyboard.press("Tab")
    assert cell.reset.evaluate("(button) => button === document.activeElement")


# --- the chat -------------------------------------------------------------------------------------------------------

QUESTION = "What is a KV block?"  # which the form asks first
ANSWER = "A KV block is a fixed-size piece of the KV cache"
WATCH = """(stop) => {
    window.seen = new Set();
    new MutationObserver(() => {
        const said = [...document.querySelectorAll(".chat-log p")];
        const answer = said.find((each) => each.textContent.startsWith("Answer"));
        if (answer) window.seen.add(answer.textContent);
        if (stop && answer?.textContent.length > 10) document.querySelector(".chat .bench-stop").click();
    }).observe(document.querySelector(".chat-log"), { childList: true, characterData: true, subtree: true });
}"""


def chat(page: Any) -> SimpleNamespace:
    """The parts of a chat."""
    root = page.locator(".chat")
    root.wait_for()
    return SimpleNamespace(
        root=root,
        field=root.get_by_label("Your question"),
        log=root.get_by_role("log"),
        status=root.locator(".bench-status"),
        steps=root.locator(".chat-steps kv-timeline"),
        beside=root.locator(".chat-beside"),
    )


def ask(page: Any, form: SimpleNamespace, question: str, until: str = "tokens") -> None:
    """Ask by the keyboard alone, and wait until the status says so."""
    form.field.fill(question)
    form.status.evaluate("(status) => (status.textContent = '')")
    page.keyboard.press("Enter")
    form.status.filter(has_text=until).wait_for()
    form.root.locator("button[type=submit]:enabled").wait_for()


def learn(page: Any, site: str, **texts: str) -> None:
    """Keep texts as the editors of labs do: lab_02_4 is that of 02.4."""
    page.goto(f"{site}/index.html")
    kept = {f"mini_vllm lab {name[4:].replace('_', '.')}": text for name, text in texts.items()}
    page.evaluate("(kept) => (localStorage.clear(), Object.assign(localStorage, kept))", kept)


@pytest.mark.smoke
def test_a_chat_answers_word_by_word_and_goes_on(page: Any, site: str) -> None:
    page.goto(f"{site}/ask.html")
    form = chat(page)
    page.evaluate(WATCH, False)
    ask(page, form, QUESTION)
    assert ANSWER in form.log.inner_text()
    assert page.evaluate("seen.size") > 10
    assert form.field.evaluate("(field) => field === document.activeElement")
    ask(page, form, "What is prefix caching?")
    assert "Prefix caching keeps the full blocks of earlier requests" in form.log.inner_text()
    form.steps.get_by_text("chunk after a prefix hit").wait_for()  # the conversation was sent again, and found
    form.field.evaluate("(field) => field.removeAttribute('maxlength')")
    ask(page, form, "why " * 2000, "A new conversation has room again")
    form.root.get_by_role("button", name="New conversation").click()
    assert form.log.inner_text() == ""
    ask(page, form, QUESTION)


def test_weights_that_do_not_come_are_told_and_fetched_again(browser: Any, site: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    browser.route("**/*.safetensors", lambda route: route.abort())
    page.goto(f"{site}/ask.html")
    form = chat(page)
    ask(page, form, QUESTION, "Try again.")
    assert "the network" in form.status.inner_text()
    browser.unroute("**/*.safetensors")
    ask(page, form, QUESTION)
    assert ANSWER in form.log.inner_text()
    page.close()


def test_an_answer_is_stopped_between_two_steps(page: Any, site: str) -> None:
    """The part is slow, so that there is much of the answer left when the first words are seen."""
    solution, head = source.render_solution(find_lab("03.1")), "token_budget: int) -> int:\n"
    assert head in solution
    learn(page, site, lab_03_1=solution.replace(head, f"{head}        sum(range(1_000_000))\n"))
    page.goto(f"{site}/yours.html")
    form = chat(page)
    page.evaluate(WATCH, True)
    ask(page, form, QUESTION, "Stopped")
    assert "Yours: 03.1." in form.log.inner_text()
    assert ANSWER not in form.log.inner_text()
    assert form.beside.inner_text() == ""
    learn(page, site)


def test_a_chat_on_a_learners_parts_shows_where_they_part_from_the_reference(page: Any, site: str) -> None:
    kv, schedule = (source.render_solution(find_lab(lab_id)) for lab_id in ("02.4", "03.2"))
    learn(page, site, lab_02_4=kv, lab_03_2=seeded_bugs(find_lab("03.2"))["newcomers_first"].code)
    page.goto(f"{site}/yours.html")
    form = chat(page)
    ask(page, form, QUESTION)
    said = form.log.inner_text()
    assert "Yours: 02.4, 03.2. The reference's, not begun: 03.1." in said
    assert ANSWER in said
    form.beside.get_by_text("decide otherwise than the reference, first in step 1.").wait_for()
    yours, reference = form.beside.locator("pre").inner_text().splitlines()
    assert yours.startswith("yours      sched [['ann', 16]]")
    assert reference.startswith("reference  sched [['chat', 1], ['ann', 15]]")
    figures = form.beside.locator("kv-timeline")
    assert figures.evaluate_all("(figures) => figures.map((figure) => figure.step)") == [1, 1]
    page.evaluate("(text) => (localStorage['mini_vllm lab 03.2'] = text)", schedule)
    ask(page, form, QUESTION)
    form.beside.get_by_text(
        "Every step of this conversation is the reference's, and so are those of all 100"
    ).wait_for()
    head = "def free(self, request: Request) -> None:\n"
    assert head in kv
    raising = kv.replace(head, f"{head}        oops()\n")
    page.evaluate("(text) => (localStorage['mini_vllm lab 02.4'] = text)", raising)
    ask(page, form, QUESTION, "No answer")
    assert "NameError: name 'oops' is not defined" in form.log.inner_text()
    assert re.search(r"your line: 02\.4, line \d+: oops\(\)", form.log.inner_text())
    learn(page, site)


def test_a_part_that_loops_ends_the_answer(page: Any, site: str) -> None:
    todo, loop = 'todo("03.1")', 'print("in the loop")\n        while True:\n            pass'
    learn(page, site, lab_03_1=source.render_stub(find_lab("03.1")).replace(todo, loop))
    clock = Clock(page)
    page.goto(f"{site}/yours.html")
    form = chat(page)
    with clock.standing_still():
        form.field.press("Enter")
        form.log.filter(has_text="in the loop").wait_for()
        clock.let_pass(61)
        form.status.filter(has_text="One of your parts loops.").wait_for()
    learn(page, site)


def test_a_browser_that_cannot_run_the_engine_says_so(browser: Any, site: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.add_init_script("delete globalThis.WebAssembly")
    page.goto(f"{site}/ask.html")
    page.get_by_text("cannot run in this browser, which lacks WebAssembly").wait_for()
    assert page.get_by_text("mini-vllm chat", exact=True).first.is_visible()
    page.close()


# --- labs -----------------------------------------------------------------------------------------------------------


def test_a_lab_is_red_with_the_stub_and_green_with_the_reference(page: Any, site: str) -> None:
    page.goto(f"{site}/lab.html")
    lab, num_tests = bench(page), len(read_tests(find_lab("02.1")))
    run(page, lab, f"0 of {num_tests} green")
    assert "is not written yet" in lab.output.inner_text()
    assert lab.output.locator("li.lab-todo").count() == num_tests
    solution = source.render_solution(find_lab("02.1"))
    write(page, lab, solution)
    run(page, lab, f"all {num_tests} are green")
    ideas = lab.output.locator(".lab-idea")
    assert ideas.count() == len({test.concept for test in read_tests(find_lab("02.1"))}), "one line for each idea"
    assert not lab.output.locator("li").first.is_visible(), "which opens to its tests"
    assert lab.output.locator("li.lab-passed").count() == num_tests
    following = lab.output.get_by_role("link", name="02.2 Taking, sharing and freeing blocks")
    assert following.get_attribute("href").endswith("/phase-02-kv-manager/guide.html#the-block-pool")
    write(page, lab, solution.replace("self.num_free_blocks += ", "self.num_free_blocks -= "))
    run(page, lab, f"of {num_tests} green")
    assert "expected" in lab.output.locator("pre").first.inner_text()
    assert "lab-failed" in ideas.first.locator("summary").get_attribute("class"), "what is red comes first"
    write(page, lab, "def oops(:")
    run(page, lab, "0 of 1")
    assert "line 1: invalid syntax\ndef oops(:\nPython cannot read it." in lab.output.inner_text()


class Clock:
    """The clock of a page, which goes on only as far as a test says. Installed before the page is opened."""

    def __init__(self, page: Any) -> None:
        self.page = page
        page.clock.install(time=0)

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """However long the block takes by the clock on the wall: for the page no time passes."""
        self.page.clock.pause_at(self.page.evaluate("Date.now()") + 60_000)
        yield
        self.page.clock.resume()

    def let_pass(self, seconds: float) -> None:
        self.page.clock.fast_forward(round(1000 * seconds))


def test_a_test_that_does_not_come_back_is_ended_and_named(page: Any, site: str) -> None:
    """When its time is over, and not before. The learner's code says when it is in the loop."""
    clock = Clock(page)
    page.goto(f"{site}/lab.html")
    lab, solution = bench(page), source.render_solution(find_lab("02.1"))
    head = "    def prepend_n(self, blocks: Iterable[KVCacheBlock]) -> None:\n"
    assert head in solution
    loop = 'print("in the loop")\nwhile True:\n    pass\n'
    for text, said in (
        (solution.replace(head, head + textwrap.indent(loop, " " * 8)), "green"),
        (loop, "0 of 1 green"),
    ):
        write(page, lab, text)
        with clock.standing_still():
            lab.run.click()
            lab.output.filter(has_text="in the loop").wait_for()
            clock.let_pass(web.SECONDS - 0.1)
            assert "in the loop" in lab.output.inner_text(), "nothing was ended"
            clock.let_pass(0.2)
            lab.status.filter(has_text=said).wait_for()
        if said == "green":
            assert re.fullmatch(r"test_\w+(\[\w+\])?", lab.output.locator(".lab-first").inner_text())
            assert "it did not within the time" in lab.output.locator(".lab-why pre").inner_text()
            assert lab.output.locator("li.lab-passed").count() > 0, "what came before it is graded"
    assert "does not come to its end" in lab.output.inner_text()
    write(page, lab, solution)
    run(page, lab)


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_the_first_red_test_is_seen_beside_the_editor(page: Any, site: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{site}/lab.html")
    lab, solution = bench(page), source.render_solution(find_lab("02.1"))
    write(page, lab, solution.replace("self.num_free_blocks += ", "self.num_free_blocks -= "))
    run(page, lab, "green")
    places = [place.bounding_box() for place in (lab.root.locator(".cm-editor"), lab.output.locator(".lab-why"))]
    top, bottom = places[0]["y"] + places[0]["height"], places[1]["y"] + places[1]["height"]
    assert top > 844 / 4, "the end of the editor"
    assert bottom <= 845
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_what_a_message_names_is_a_link(page: Any, site: str) -> None:
    page.goto(f"{site}/lab.html")
    lab, solution = bench(page), source.render_solution(find_lab("02.1"))
    write(page, lab, solution.replace("self.num_free_blocks += ", "self.num_free_blocks -= "))
    run(page, lab, "green")
    section = lab.output.get_by_role("link", name="the section the free queue")
    assert section.get_attribute("href") == f"{site}/phase-02-kv-manager/guide.html#the-free-queue"
    lab.output.get_by_role("button", name="a hint").click()
    assert page.locator(".lab-hint").count() == 1


def test_a_debugging_lab_shows_its_evidence(page: Any, site: str) -> None:
    page.goto(f"{site}/debug.html")
    bench(page)
    cases = page.locator(".lab-evidence")
    cases.first.wait_for()
    assert cases.locator("summary").all_inner_texts() == ["Evidence of case a", "Evidence of case b"]
    cases.first.locator("summary").click()
    printed = cases.first.locator("pre").inner_text()
    assert "KV blocks" in printed
    assert "its blocks are" in printed


def test_the_text_of_a_lab_outlives_the_page(page: Any, site: str) -> None:
    page.goto(f"{site}/lab.html")
    write(page, bench(page), "# half done")
    page.reload()
    lab = bench(page)
    lab.code.filter(has_text="# half done").wait_for()
    lab.reset.click()
    lab.code.filter(has_text="class FreeKVCacheBlockQueue").wait_for()
    page.reload()
    bench(page).code.filter(has_text="class FreeKVCacheBlockQueue").wait_for()


def test_the_page_of_all_labs_says_how_far_each_is(page: Any, site: str) -> None:
    def state(of: str) -> str:
        page.goto(f"{site}/labs.html")
        page.get_by_role("columnheader", name="in this browser").wait_for()
        return str(page.locator("tr", has_text=of).locator("td").last.inner_text())

    assert state("02.2") == ""
    solution = source.render_solution(find_lab("02.1"))
    for text, expected in [
        ("# half done", "begun"),
        (solution, "✓ done"),
        (solution.replace("self.num_free_blocks += ", "self.num_free_blocks -= "), r"\d+ of \d+ green"),
    ]:
        page.goto(f"{site}/lab.html")
        page.evaluate("localStorage.removeItem('mini_vllm lab 02.1 green')")
        lab = bench(page)
        write(page, lab, text)
        if expected != "begun":
            run(page, lab, "green")
        assert re.fullmatch(expected, state("02.1"))


def test_hints_come_one_by_one_and_the_reference_after_a_warning(page: Any, site: str) -> None:
    page.goto(f"{site}/lab.html")
    for number in (1, 2, 3):
        page.get_by_role("button", name=f"Hint {number} of 3").click()
        assert page.locator(".lab-hint").count() == number
    assert page.get_by_role("button", name="No more hints").is_disabled()
    page.get_by_role("button", name="Show the reference").click()
    assert page.locator(".lab-answer").inner_text().startswith("This gives the answer away")
    page.get_by_role("button", name="Give it away").click()
    assert "FreeKVCacheBlockQueue" in page.locator(".lab-answer .cm-content").inner_text()


ASK_THE_WORKER = """async (questions) => {
    const worker = new Worker(new URL("assets/worker.js", location), { type: "module" });
    const answers = [];
    for (const question of questions) {
        answers.push(await new Promise((resolve) => {
            worker.onmessage = ({ data }) => data.note || resolve(data);
            worker.postMessage({ number: 1, what: "lab", ...question });
        }));
    }
    worker.terminate();
    return answers;
}"""


def test_every_lab_of_pure_python_is_graded_in_a_page(page: Any, site: str) -> None:
    """By what the page itself calls: the stub is red, the reference is green."""
    page.goto(f"{site}/index.html")
    ids = [lab.id for lab in labs() if not lab.needs]
    texts = [page.evaluate(f"fetch('assets/labs/{lab_id}.json').then((answer) => answer.json())") for lab_id in ids]
    questions = [{"id": lab["id"], "text": lab[kind]} for lab in texts for kind in ("stub", "reference")]
    answers = page.evaluate(ASK_THE_WORKER, questions)
    outcomes = [{result["outcome"] for result in each["answer"]} for each in answers]
    assert outcomes == [{"todo"}, {"passed"}] * len(ids)


# --- the rest -------------------------------------------------------------------------------------------------------


def test_calculators_answer_to_their_fields(page: Any, site: str) -> None:
    page.goto(f"{site}/calculators.html")

    def calculator(name: str) -> Any:
        place = page.locator(f"[data-calculator={name}]")
        place.scroll_into_view_if_needed()
        place.locator(".calculator-results").wait_for()
        return place

    kv = calculator("kv")
    assert "26,408, hence 422,512 tokens" in kv.inner_text()
    kv.get_by_label("Card", exact=True).select_option("L4, 24 GB")
    assert "2,376, hence 38,000 tokens" in kv.inner_text()
    kv.get_by_label("Model", exact=True).select_option("Llama-3.3-70B")
    assert "does not fit" in kv.inner_text()
    roofline = calculator("roofline")
    assert "3,380" in roofline.inner_text()
    roofline.get_by_role("slider", name="Requests in the step").press("End")
    assert "each request" in roofline.inner_text()
    assert "3,380" not in roofline.inner_text()
    assert "14.9 %" in calculator("waste").inner_text()
    step = calculator("step")
    assert "37.7 ms" in step.inner_text()
    step.get_by_label("a, ms a step").fill("0")
    assert "37.7 ms" not in step.inner_text()
    step.get_by_label("Card", exact=True).select_option("H100, 80 GB")
    assert step.get_by_label("a, ms a step").input_value() == "4.48"


def test_a_load_over_the_capacity_has_no_figures_and_ends_its_curve(page: Any, site: str) -> None:
    """At every budget and load: what the page says is what the simulator found, and nothing is drawn beyond it."""
    found = json.loads((ROOT / "docs" / "assets" / "load.json").read_text(encoding="utf-8"))
    page.goto(f"{site}/load.html")
    load = page.locator("[data-calculator=load]")
    load.locator(".calculator-results").wait_for()
    budgets, rates = (load.get_by_role("slider", name=name) for name in ("Token budget", "Load, requests"))
    for i, budget in enumerate(found["budgets"]):
        budgets.fill(str(i))
        num_crosses = sum(None in points[str(budget)] for points in found["points"].values())
        assert load.locator(".plot-end").count() == 2 * num_crosses
        for at in range(len(found["rates"])):
            rates.fill(str(at))
            num_over = sum(points[str(budget)][at] is None for points in found["points"].values())
            assert load.locator(".calculator-results").inner_text().count("over capacity") == num_over
            assert load.locator(".plot-dot").count() == 2 * (len(found["points"]) - num_over)
            assert "NaN" not in load.inner_html()


def test_formulas_are_set_by_the_sites_own_katex(page: Any, site: str) -> None:
    page.goto(f"{site}/formula.html")
    page.locator(".arithmatex .katex-display").wait_for()
    assert page.locator(".arithmatex math").count() == 2  # for readers who hear the page
    assert "a slot bB + p mod Bi2+1." in page.locator("main").inner_text().replace("\N{NO-BREAK SPACE}", " ")
    assert page.locator(".arithmatex sup").inner_text() == "2+1"
    assert page.evaluate("document.fonts.ready.then(() => document.fonts.check('16px KaTeX_Math'))")


ARITHMETIC = """
import * as c from "./tools/book/web/src/calculators.js";
const answers = Object.entries(c.MODELS).map(([name, m]) => ({
    ...m, perBlock: c.bytesPerToken(m, 2) * 16, activations: c.activationBytes(m), parameters: c.parameters(m).all,
}));
const held = [1, 7, 16].map((blockSize) => c.slotsHeld({ mean: (16 * 7 + 1) / 2, longest: 256, blockSize }).blocks);
console.log(JSON.stringify({ answers, held }));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_calculators_agree_with_the_engine() -> None:
    torch, device = pytest.importorskip("torch"), pytest.importorskip("mini_vllm.worker.device")
    from labkit.waste import PagedMemory
    from mini_vllm.config import EngineConfig
    from mini_vllm.step import LayerKVSpec

    node = ["node", "--input-type=module", "-e", ARITHMETIC]
    said = json.loads(subprocess.run(node, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    for each in said["answers"]:
        per_token = LayerKVSpec(each["kvHeads"], each["headDim"], torch.bfloat16.itemsize).bytes_per_token
        config = SimpleNamespace(
            num_attention_heads=each["heads"],
            num_key_value_heads=each["kvHeads"],
            head_dim=each["headDim"],
            hidden_size=each["hidden"],
            intermediate_size=each["intermediate"],
            vocab_size=each["vocab"],
        )
        assert each["perBlock"] == each["layers"] * 16 * per_token
        assert each["activations"] == device._activation_bytes(EngineConfig(model="tiny"), config, torch.bfloat16)
    assert [round(each["parameters"] / 1e9, 2) for each in said["answers"]] == [0.6, 8.03, 32.76, 70.55]
    for block_size, held in zip((1, 7, 16), said["held"], strict=True):
        paged = PagedMemory(1 << 20, block_size)
        lengths = range(1, 16 * 7 + 1)  # each rest of a division by the block size equally often
        assert all(paged.allocate(length, length) for length in lengths)
        assert sum(paged.num_held(length) for length in lengths) / len(lengths) == held


STEPS = """
import * as c from "./tools/book/web/src/steppers.js";
const { scores, values } = JSON.parse(process.argv[1]);
const program = (number) => c.writeKV(number, c.EXAMPLE);
const softmax = c.onlineSoftmax(scores, values).map((each) => [each.m, each.l, each.o]);
console.log(JSON.stringify({ softmax, programs: [0, 1, 2].map(program), example: c.EXAMPLE }));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")
def test_what_is_walked_through_is_what_the_engine_does() -> None:
    torch = pytest.importorskip("torch")
    from mini_vllm.attention.reference import OnlineSoftmax, ReferenceBackend

    scores, values = [1000.0, 1001.5, 998.0, 1001.5, 1004.0], [7.0, 14.0, 21.0, 28.0, -5.0]
    asked = json.dumps({"scores": scores, "values": values})
    node = ["node", "--input-type=module", "-e", STEPS, asked]
    said = json.loads(subprocess.run(node, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    ours = OnlineSoftmax(1, 1, 1, torch.device("cpu"))
    for score, value, walked in zip(scores, values, said["softmax"], strict=True):
        ours.add(torch.tensor([[[score]]]), torch.tensor([[[value]]]))
        state = [ours.maximum.item(), ours.normaliser.item(), ours.weighted_sum.item()]
        assert walked == pytest.approx(state, rel=1e-5)

    example = said["example"]
    rows = torch.arange(float(example["row"] * len(example["slots"]))).reshape(-1, 2, example["row"] // 2)
    caches = torch.full((2, 2, 4, 2, example["row"] // 2), -1.0)
    written = caches.clone()
    step: Any = SimpleNamespace(slot_mapping=torch.tensor(example["slots"]), block_size=caches.shape[2])
    ReferenceBackend().write_kv(rows, rows, written[0], written[1], step)
    for walked in said["programs"]:
        for cache, (load, store) in zip(caches.flatten(1), (("key", "key"), ("value", "value")), strict=True):
            if walked["if slot"]:
                cache[walked[f"tl.store({store}_cache"]] = rows.flatten()[walked[f"{load} ="]]
    assert torch.equal(caches, written)
    lines = [line.strip() for line in cut("mini_vllm/attention/write_kv.py", "write_kv_kernel:body").splitlines()]
    beginnings = [*said["programs"][0]]
    assert [line[: len(beginning)] for line, beginning in zip(lines, beginnings, strict=True)] == beginnings


@pytest.mark.parametrize("name", ["cells", "lab", "ask", "calculators"])
def test_axe_finds_nothing_serious_after_a_run(page: Any, site: str, name: str) -> None:
    """In light and in dark: the run, which takes far longer than axe, is the same."""
    page.emulate_media(color_scheme="light")
    page.add_init_script("for (const key of Object.keys(localStorage)) localStorage.removeItem(key)")  # the last scheme
    page.goto(f"{site}/{name}.html")
    if name == "ask":
        ask(page, chat(page), QUESTION)
    elif name != "calculators":
        run(page, bench(page), "Done" if name == "cells" else "green")
    else:
        page.locator(".calculator-results").last.wait_for()
    page.evaluate((WEB / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    assert page.locator("body").get_attribute("data-md-color-scheme") == "default"
    for scheme in ("light", "dark"):
        assert scheme == "light" or page.evaluate(TO_DARK) == "slate"
        found = page.evaluate("axe.run(document)")["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        assert [(each["id"], [node["html"][:200] for node in each["nodes"][:3]]) for each in serious] == [], scheme
    page.evaluate("localStorage.clear()")  # what comes next begins in light


@pytest.mark.parametrize("name", ["index", "cells", "ask", "lab", "labs", "calculators"])
def test_a_phone_is_wide_enough(page: Any, site: str, name: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site}/{name}.html")
    page.wait_for_load_state("networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    if name == "labs":  # its table does not scroll, either, and all of it is seen
        table = page.locator(".all-labs table")
        assert table.evaluate("(table) => table.parentNode.parentNode.scrollWidth") <= 390
        boxes = [cell.bounding_box() for cell in table.locator("td:not(:empty)").all()]
        assert all(box["x"] >= 10 and box["x"] + box["width"] <= 380 for box in boxes)


def test_pages_serve_without_javascript(browser: Any, site: str) -> None:
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.route("**/*.js", lambda route: route.abort())
    for name, text in [
        ("cells", "from mini_vllm.observe.trace import run_trace"),
        ("lab", "lab watch 02.1"),
        ("calculators", "131,072 x 16         = 2,097,152 bytes per block = 2 MiB"),
    ]:
        page.goto(f"{site}/{name}.html")
        assert page.get_by_text(text).first.is_visible()
    page.close()
