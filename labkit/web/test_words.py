"""What a page says of a text that cannot be graded, or is red: no file, and no command, that a page does not have."""

import json
import re
import subprocess
import sys

import pytest

from labkit.labs import source
from labkit.labs.catalog import ROOT, find_lab

ON_DISK = re.compile(r"\bmine\.py\b|\blab (?!hint)[a-z]+ \d|\b[Tt]he file\b|\byour file\b")
# In a process of its own: each grading imports the engine again, as in a page.
GRADE = """
import json, sys
from labkit.web import book
from labkit.web.conversation import parts_of

for lab_id, text in json.load(sys.stdin):
    messages = [result["message"] for result in json.loads(book.grade(lab_id, text))]
    print(json.dumps([*messages, *parts_of({lab_id: text})[1].values()]))
"""


def said_of(texts: list[tuple[str, str]]) -> list[list[str]]:
    """All that a page says of each text of a lab."""
    command = [sys.executable, "-c", GRADE]
    run = subprocess.run(command, cwd=ROOT, input=json.dumps(texts), capture_output=True, encoding="utf-8", check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.slow
def test_a_page_speaks_of_the_page() -> None:
    stub = source.render_stub(find_lab("03.1"))
    raises = stub.replace('todo("03.1")', "oops()")
    texts = [
        ("03.1", stub),
        ("03.1", "def ("),
        ("03.1", "x = '\0'"),
        ("03.1", stub.replace("token_budget: int", "budget: int")),
        ("03.1", "from mini_vllm.scheduler import Scheduler\n"),
        ("03.1", f"{stub}\nimport sys\nsys.exit(3)\n"),
        ("03.1", stub.replace('todo("03.1")', "return 0")),
        ("03.1", raises),
        ("02.6", source.render_stub(find_lab("02.6"))),
        ("05.4", source.render_stub(find_lab("05.4")).replace('todo("05.4")', "return None")),
    ]
    said = said_of(texts)
    assert [len(each) > 0 for each in said] == [True] * len(texts)
    for (lab_id, text), messages in zip(texts, said, strict=True):
        assert not ON_DISK.search("\n".join(messages)), (lab_id, text[-200:])
    assert any("your line  line " in message for message in said[texts.index(("03.1", raises))])
