"""The page at "/" and the steps that it follows: who may see them, what they hold, and the page in
a browser.

The browser's test needs the extra "docs" and Chromium. If one of them is missing, the test is
skipped and says so.
"""

import asyncio
import base64
import hashlib
import http.client
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from mini_vllm.observe.step_plan import StepPlan, short_name
from mini_vllm.serving.conftest import LiveServer
from mini_vllm.serving.live import MAX_ENTRIES, PAGE, StepBuffer
from mini_vllm.serving.messages import StepDone

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
PATIENCE_MS = 60_000  # a backstop
QUESTION = [{"role": "user", "content": "What is a KV block?"}]


def ask(
    server: LiveServer, method: str, path: str, body: Any = None, key: str = ""
) -> http.client.HTTPResponse:
    """The answer to one request, on a connection of its own; its body may still be coming."""
    headers = {"Connection": "close"} | ({"Authorization": f"Bearer {key}"} if key else {})
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    return connection.getresponse()  # it holds the socket


def events_of(answer: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    for line in answer:
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


# --- the page -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_the_page_comes_with_its_headers(live: LiveServer, method: str) -> None:
    answer = ask(live, method, "/")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.read().decode() == (PAGE.read_text(encoding="utf-8") if method == "GET" else "")


def test_the_policy_allows_what_is_in_the_page_and_nothing_else(live: LiveServer) -> None:
    answer = ask(live, "GET", "/")
    text = answer.read().decode()
    policy = dict(
        part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; ")
    )
    hashes = {}
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        hashes[f"{tag}-src"] = (
            f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
        )
    none = dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'")
    others = {"connect-src": "'self'", "img-src": "data:", "require-trusted-types-for": "'script'"}
    assert policy == hashes | none | others
    assert not re.search(
        r"https?:|//\w+\.|\bimport\b|@import|url\(|innerHTML|\bstyle=|\son\w+=", text
    )


def test_the_page_needs_no_key_and_the_steps_do(serve: Callable[..., LiveServer]) -> None:
    server = serve(server_options={"api_keys": ("secret",)})
    assert ask(server, "GET", "/").status == 200
    assert ask(server, "GET", "/engine/steps").status == 401
    assert ask(server, "GET", "/engine/steps", key="wrong").status == 401
    answer = ask(server, "HEAD", "/engine/steps", key="secret")
    assert (answer.status, answer.headers["Content-Type"], answer.read()) == (
        200,
        "text/event-stream; charset=utf-8",
        b"",
    )
    for path in ("/", "/engine/steps"):
        answer = ask(server, "POST", path, {}, key="secret")
        assert (answer.status, answer.headers["Allow"]) == (405, "GET")
    server.until(lambda: len(server.engine.listeners) == 1, "no listener is left but the log")


# --- the steps ------------------------------------------------------------------------------------


def test_steps_come_while_a_request_runs_until_the_client_leaves(live: LiveServer) -> None:
    live.assert_idle()
    num_tasks = live.in_loop(lambda: len(asyncio.all_tasks()))
    with closing(ask(live, "GET", "/engine/steps")) as answer:
        events = events_of(answer)
        first = next(events)
        assert (first["steps"], first["running"], first["waiting"], first["kv_cache_usage"]) == (
            [],
            0,
            0,
            0,
        )
        assert first["num_blocks"] == 199
        said = json.loads(
            ask(
                live, "POST", "/v1/chat/completions", {"messages": QUESTION, "max_tokens": 20}
            ).read()
        )
        steps: list[dict[str, Any]] = []
        while sum(step["count"] for step in steps) < 20:
            event = next(events)
            assert event["dropped"] == 0
            assert event["num_blocks"] == 199
            steps += event["steps"]
        live.until(lambda: live.server.num_in_flight == 0, "a reader holds up no shutdown")
    name, num_prompt_tokens = said["id"].partition("-")[2][:6], said["usage"]["prompt_tokens"]
    assert steps[0]["participants"] == [[name, "prefill", num_prompt_tokens]]
    assert all(step["participants"] == [[name, "decode", 1]] for step in steps[1:])
    assert [step["graph"] for step in steps[:2]] == ["", "decode 1"]
    assert [step["step"] - step["count"] + 1 for step in steps[1:]] == [
        step["step"] + 1 for step in steps[:-1]
    ]
    live.until(lambda: len(live.engine.listeners) == 1, "no listener is left but the log")
    live.until(lambda: len(asyncio.all_tasks()) == num_tasks, "no task is left")


@pytest.mark.slow
def test_steps_end_when_the_server_drains(serve: Callable[..., LiveServer]) -> None:
    server = serve()
    answer = ask(server, "GET", "/engine/steps")
    server.in_loop(lambda: setattr(server.server.api, "is_draining", True))
    assert len(list(events_of(answer))) == 1
    assert len(server.engine.listeners) == 1, "the log alone"
    refused = ask(server, "GET", "/engine/steps")
    assert (refused.status, json.load(refused)["error"]["message"]) == (
        503,
        "the server is shutting down",
    )


def done(step: int, *participants: tuple[str, str, int]) -> StepDone:
    return StepDone([], None, StepPlan(step, list(participants), 1, ""), 3, step, 0.5)


def test_a_reader_that_does_not_read_holds_bounded_memory() -> None:
    buffer = StepBuffer(None)
    for step in range(1, 1001):  # each differs from the one before it
        buffer.put(done(step, ("chatcmpl-0123456789", "prefill", step)), [])
    assert len(buffer._entries) == MAX_ENTRIES
    taken = buffer.take()
    assert [each["step"] for each in taken["steps"]] == list(range(1001 - MAX_ENTRIES, 1001))
    assert taken["dropped"] == 1000 - MAX_ENTRIES
    assert (taken["running"], taken["waiting"], taken["kv_cache_usage"]) == (3, 1000, 0.5)
    assert not buffer.has_news.is_set()
    assert (buffer.take()["steps"], buffer.take()["dropped"]) == ([], 0)


def test_equal_steps_are_one_entry_and_are_counted_when_they_are_dropped() -> None:
    buffer = StepBuffer(None)
    for step in range(1, 1001):
        buffer.put(done(step, ("chatcmpl-0123456789", "decode", 1)), [])
    buffer.put(StepDone([], None, None, 0, 0, 0.0), [])  # an abort: there was no step
    (entry,) = buffer.take()["steps"]
    assert entry == {
        "step": 1000,
        "count": 1000,
        "participants": [["012345", "decode", 1]],
        "graph": "",
    }
    for step in range(MAX_ENTRIES * 2 + 2):  # pairs of equal steps
        buffer.put(done(step, ("chatcmpl-0123456789", "prefill", step // 2)), [])
    assert buffer.take()["dropped"] == 2


@pytest.mark.parametrize(
    ("request_id", "name"),
    [
        ("chatcmpl-0123456789abcdef01234567", "012345"),
        ("2_chatcmpl-0123456789abcdef01234567", "012345.2"),
        ("cmpl-0123456789abcdef01234567-3", "012345-3"),
        ("1_cmpl-0123456789abcdef01234567-3", "012345-3.1"),
        ("<b>something else</b>", "<b>somet"),
    ],
)
def test_names_are_short_and_tell_choices_apart(request_id: str, name: str) -> None:
    assert short_name(request_id) == name


# --- in a browser ---------------------------------------------------------------------------------


class Gate:
    """Holds the engine before a step as long as `holds` says so: what is endless does not end while
    it is looked at.
    """

    def __init__(self, server: LiveServer) -> None:
        self._changed = threading.Condition()
        self._holds: Callable[[], bool] = lambda: False
        self.num_steps = 0
        core = server.core
        step = core.step

        def held_step() -> Any:
            with self._changed:
                self._changed.wait_for(lambda: not self._holds(), 60)
            self.num_steps += 1
            return step()

        core.step = held_step

    def set(self, holds: Callable[[], bool]) -> None:
        """What holds must change by set() alone."""
        with self._changed:
            self._holds = holds
            self._changed.notify_all()

    def open(self) -> None:
        self.set(lambda: False)


@pytest.fixture
def tab() -> Iterator[Any]:
    """A page that must not complain."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="pip install -e '.[docs]' brings playwright"
    )
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    complaints: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE_MS)
        api.expect.set_options(timeout=PATIENCE_MS)
        page.on(
            "console",
            lambda line: (
                complaints.append(line.text) if line.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
        browser.close()
    assert complaints == []


@pytest.mark.nightly
@pytest.mark.smoke
def test_a_learner_sees_the_engine_while_it_answers(
    tab: Any, serve: Callable[..., LiveServer]
) -> None:
    from playwright.sync_api import expect

    server = serve()
    gate = Gate(server)
    asked: set[str] = set()
    tab.on("request", lambda request: asked.add(request.url.removeprefix(server.url)))
    tab.goto(server.url)
    expect(tab.locator("#link")).to_have_text("live")
    expect(tab.locator("#model")).to_contain_text("tiny")
    running, timeline = tab.locator("#running .count"), tab.locator("#timeline")

    # One question: the answer is that of the API, and the timeline has its steps.
    tab.get_by_text("How to sample").click()
    tab.get_by_label("Temperature").fill("0")
    first = tab.get_by_role("article", name="Chat 1")
    box = first.get_by_label("Question for chat 1")
    box.fill("What is a KV block?")
    box.press("Enter")
    expect(first.locator(".note")).to_contain_text("generated")
    whole = json.load(
        ask(server, "POST", "/v1/chat/completions", {"messages": QUESTION, "temperature": 0})
    )
    assert first.locator(".said").all_inner_texts() == [
        QUESTION[0]["content"],
        whole["choices"][0]["message"]["content"],
    ]
    expect(timeline.locator(".row", has_text="Chat 1").locator(".prefill")).to_be_visible()
    expect(timeline.locator(".row", has_text="Chat 1").locator(".decode").first).to_be_visible()
    expect(tab.locator("#caption")).to_contain_text("The engine is idle")

    # An answer without an end, which the button ends.
    tab.get_by_text("Do not end at the end-of-text token").click()
    before = gate.num_steps
    gate.set(lambda: gate.num_steps > before + 20)
    box.fill("And what is a block table?")
    box.press("Enter")
    expect(running).to_have_text("1")
    expect(first.locator(".said").last).not_to_be_empty()
    first.get_by_role("button", name="Stop").click()
    expect(first.locator(".state")).to_have_text("stopped")
    expect(box).to_be_focused()
    gate.open()
    expect(running).to_have_text("0")
    server.assert_idle()

    # Three questions are in one batch.
    tab.get_by_text("Do not end at the end-of-text token").click()
    gate.set(lambda: True)
    tab.get_by_role("button", name="Ask three questions at once").click()
    server.until(lambda: len(server.engine._streams) == 3, "three requests are in flight")
    gate.set(lambda: len(server.core.scheduler.running) == 3)
    expect(running).to_have_text("3")
    gate.open()
    for number in (2, 3, 4):
        expect(tab.get_by_role("article", name=f"Chat {number}").locator(".note")).to_contain_text(
            "generated"
        )
        expect(
            timeline.locator(".row", has_text=f"Chat {number}").locator(".decode").first
        ).to_be_visible()
    expect(running).to_have_text("0")
    server.assert_idle()
    assert asked == {"/", "/engine/steps", "/v1/models", "/v1/chat/completions"}
    tab.close()
    server.until(lambda: len(server.engine.listeners) == 1, "no listener is left but the log")
