"""What a page says of a text that cannot be graded, or is red: no file, and no command, that a page does not have."""

import json
import re

import pytest

from labkit.labs import source
from labkit.labs.catalog import find_lab
from labkit.web import book
from labkit.web.conversation import Conversation

STUB = source.render_stub(find_lab("03.1"))
ON_DISK = re.compile(r"\bmine\.py\b|\blab (?!hint)[a-z]+ \d|\b[Tt]he file\b|\byour file\b")
TEXTS = {
    "a stub": STUB,
    "a syntax error": "def (",
    "another signature": STUB.replace("token_budget: int", "budget: int"),
    "borrowed": "from mini_vllm.scheduler import Scheduler\n",
    "a loop": STUB + "\nimport sys\nsys.exit(3)\n",
    "an error": STUB.replace('todo("03.1")', "oops()"),
    "a wrong result": STUB.replace('todo("03.1")', "return 0"),
    "no UTF-8": "x = '\0'",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_page_speaks_of_the_page(text: str) -> None:
    results = json.loads(book.grade("03.1", text))
    assert not ON_DISK.search(" ".join(result["message"] for result in results))
    assert not ON_DISK.search(Conversation({"03.1": text}).whose())


def test_a_line_is_named() -> None:
    [*results] = json.loads(book.grade("03.1", TEXTS["an error"]))
    assert "your line  line " in " ".join(result["message"] for result in results)


@pytest.mark.parametrize("lab_id", ["02.6", "05.4"])
def test_other_kinds_of_labs_speak_of_the_page(lab_id: str) -> None:
    text = source.render_stub(find_lab(lab_id)).replace(f'todo("{lab_id}")', "return None")
    results = json.loads(book.grade(lab_id, text))
    assert not ON_DISK.search(" ".join(result["message"] for result in results))
