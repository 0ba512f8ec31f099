"""Lab 02.6: Debug it: wrong tokens, much later (60 minutes). You find the culprit, and write the tests.

`lab evidence 02.6` shows the cases; what must hold is in contract.md. Name the culprit of each. Then write tests that
catch it and its like: each is a function test_...(lab), green on every correct engine. The first test is an example,
and yours to change.
"""

from collections import Counter

from labkit import check, todo


def make(lab, text, name="a"):
    """A request; each letter of the text is one token."""
    return lab.Request(name, [ord(letter) for letter in text], lab.SamplingParams(max_tokens=64))


def test_what_was_written_is_found(lab):
    """a writes two blocks and leaves; b, which begins like it, finds both."""
    kv = lab.KVCacheManager(8, 4)
    see = check(lab.draw.blocks, kv, "a", "b")
    a, b = make(lab, "abcdefghij"), make(lab, "abcdefgh?!", "b")
    kv.allocate_slots(a, 10)
    a.num_computed_tokens = 10
    a.status = lab.RequestStatus.FINISHED_LENGTH
    kv.free(a)
    _, num_hit = kv.get_computed_blocks(b)
    see("how many tokens b finds", num_hit, equals=8)


CASE_A = {"culprit": "", "step": None, "why": ""}  # "module:Class.function", a number, words
CASE_B = {"culprit": "", "step": None, "why": ""}  # "module:Class.function", a number, words


def test_what_catches_it(lab):
    """Yours: rename it, and write more of them."""
    todo("02.6")
