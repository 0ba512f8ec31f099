"""Lab 02.5: Break it: tests for a KV cache manager (90 minutes). You write the tests.

What must hold is in contract.md. Each test is a function test_...(lab); lab has the engine's names. It is run on
correct engines, where it must be green, and on buggy ones, where at least one of your tests must be red. The first test
is an example, and yours to change.
"""

from collections import Counter
from itertools import product
from math import ceil
from random import Random

from labkit import check, raises, todo


def make(lab, text, name="a", salt=None):
    """A request; each letter of the text is one token."""
    return lab.Request(name, [ord(letter) for letter in text], lab.SamplingParams(max_tokens=64), cache_salt=salt)


def test_everything_comes_back(lab):
    """A story of one request. `see` draws the blocks, as they are now and when something is not as expected."""
    kv, a = lab.KVCacheManager(8, 4), make(lab, "abcdefghij")
    see = check(lab.draw.blocks, kv, "a")
    kv.allocate_slots(a, 10)
    a.num_computed_tokens = 10
    see("free blocks, of 7, while a has slots for 10 tokens", kv.num_free_blocks, equals=4)
    a.status = lab.RequestStatus.FINISHED_LENGTH
    kv.free(a)
    see("free blocks when a is gone", kv.num_free_blocks, equals=7)


def test_what_you_break_first(lab):
    """Yours: rename it, and write more of them."""
    todo("02.5")
