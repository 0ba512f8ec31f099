"""What a page says of an engine with a learner's parts in it; the page itself is tested in tools/book."""

import json
from typing import Any

import pytest

from labkit.compare import behaviour
from labkit.labs import source
from labkit.labs.catalog import find_lab
from labkit.labs.implementations import seeded_bugs
from labkit.web.conversation import Conversation

KV, SCHEDULE = (source.render_solution(find_lab(lab_id)) for lab_id in ("02.4", "03.2"))
QUESTION = [{"role": "user", "content": "What is a KV block?"}]


def answer(conversation: Conversation, messages: list[dict[str, str]] = QUESTION) -> dict[str, Any]:
    """The last of each kind of note."""
    last: dict[str, Any] = {}
    for note in conversation.answer(json.dumps(messages)):
        last |= json.loads(note)
    return last


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behaviour, "NUM_SCENARIOS", 20)


def differ(conversation: Conversation) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(conversation.differ(lambda scenario: None))
    return found


def test_correct_parts_answer_as_the_reference_does(few: None) -> None:
    reference, mine = Conversation({}), Conversation({"02.4": KV, "03.1": "", "03.2": SCHEDULE})
    assert mine.whose() == "Yours: 02.4, 03.2. The reference's, not begun: 03.1."
    assert answer(mine)["said"] == answer(reference)["said"]
    assert json.loads(mine.trace())["totals"]["preemptions"] > 0, "there is something to decide"
    said = differ(mine)["said"]
    assert said.startswith("Every step of this conversation is the reference's, and so are those of all 20 scenarios")


@pytest.mark.parametrize(
    ("lab_id", "bug", "said"),
    [
        (
            "03.2",
            "newcomers_first",
            "In this conversation your parts decide otherwise than the reference, first in step 1.",
        ),
        (
            "02.4",
            "always_one_more",
            "In this conversation your parts decide otherwise than the reference, first in step 0.",
        ),
        ("02.4", "forgets_the_table", "In this conversation your parts decide otherwise than the reference, first in"),
        (
            "02.4",
            "frees_the_tail_last",
            "Every step of this conversation is the reference's. In scenario 14 of `lab diff`",
        ),
    ],
)
def test_a_wrong_part_shows_where_it_parts_from_the_reference(few: None, lab_id: str, bug: str, said: str) -> None:
    conversation = Conversation({lab_id: seeded_bugs(find_lab(lab_id))[bug].code})
    answer(conversation)
    found = differ(conversation)
    assert found["said"].startswith(said)
    yours, reference = found["state"].splitlines()
    assert yours.split()[1:] != reference.split()[1:]
    at = [next(step for step in trace["steps"] if step["step"] == found["step"]) for _, trace in found["figures"]]
    assert any(at[0].get(field) != at[1].get(field) for field in behaviour.FIELDS)


def test_an_error_of_a_part_names_its_line() -> None:
    head = "def free(self, request: Request) -> None:\n"
    said = answer(Conversation({"02.4": KV.replace(head, f"{head}        oops()\n"), "03.2": SCHEDULE}))["error"]
    error, line = said.splitlines()
    assert error == "NameError: name 'oops' is not defined"
    assert line.startswith("your line: 02.4, line ")


def test_what_cannot_be_a_part_is_the_references() -> None:
    conversation = Conversation({"02.4": source.render_stub(find_lab("02.4")), "03.2": "def ("})
    said = conversation.whose()
    assert said.startswith(
        "Nothing of yours is in it. The reference's, not written yet: 02.4. The reference's, line 1: "
    )
    assert "said" in answer(conversation)


def test_an_answer_that_is_stopped_frees_its_blocks_and_the_conversation_goes_on() -> None:
    conversation = Conversation({})
    notes = conversation.answer(json.dumps(QUESTION))
    next(notes)
    notes.close()
    assert conversation.engine.scheduler.kv_cache_manager.num_free_blocks == 48
    said = answer(conversation, [*QUESTION, {"role": "assistant", "content": "A"}, *QUESTION])
    assert said["num_tokens"] > 10
    assert json.loads(conversation.trace())["aborts"] == [{"id": "chat", "step": 1, "phase": "before"}]


def test_a_conversation_that_is_too_long_is_refused() -> None:
    said = answer(Conversation({}), [{"role": "user", "content": "why " * 2000}])["error"]
    assert "at most 768 fit" in said
